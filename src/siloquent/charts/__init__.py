"""Pictures of numbers: arrays and words in, SVG text or lines of block characters out. Nothing is read, nothing drawn
from private values: whoever calls has released the numbers.

    Bars(words, labels, (Series(values, low=.., high=.., name=..), ..))     one bar a label and series, with intervals
    Lines(words, x, (Series(..), ..))                                       one line a series, with its band
    HeatMap(words, values, across=labels, up=labels)                        values (down, across), the lowest line first
    Graph(words, (Node(name, group=..), ..), (Edge(0, 1, name=..), ..))     small graphs: at most 200 nodes

Every picture has ``svg() -> str`` and ``lines(width=.., ascii_only=..) -> list[str]``. ``words`` is
``Labels(title, about, across=.., up=..)``: ``about`` is the one sentence for those who do not see the picture. Colours
never stand alone: bars are hatched, lines dashed, heat grows lighter and graphs' groups have shapes.
"""

from siloquent.charts.bars import Bars
from siloquent.charts.chart import Chart, Labels, Series
from siloquent.charts.graph import Edge, Graph, Node
from siloquent.charts.heatmap import HeatMap
from siloquent.charts.lines import Lines

__all__ = ["Bars", "Chart", "Edge", "Graph", "HeatMap", "Labels", "Lines", "Node", "Series"]
