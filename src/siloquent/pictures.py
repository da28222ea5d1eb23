"""The name of ``siloquent.charts`` in 0.1; it goes in 0.3."""

from siloquent.charts import Bars, Edge, Graph, HeatMap, Lines, Node, Series
from siloquent.charts import Chart as Picture
from siloquent.charts import Labels as Words
from siloquent.deprecation import warn_of_old_name

__all__ = ["Bars", "Edge", "Graph", "HeatMap", "Lines", "Node", "Picture", "Series", "Words"]

warn_of_old_name("siloquent.pictures", "siloquent.charts")
