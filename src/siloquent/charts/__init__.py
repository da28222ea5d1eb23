"""Charts of numbers: arrays and text in, SVG text or lines of block characters out. Nothing is read, and only released
numbers are drawn: releasing them is the caller's responsibility.

    Bars(words, labels, (Series(values, low=..., high=..., name=...), ...))   one bar a label and series, with intervals
    Lines(words, x, (Series(...), ...))                                     one line a series, with its band
    HeatMap(words, values, across=labels, up=labels)                      values (down, across), the lowest line first
    Graph(words, (Node(name, group=...), ...), (Edge(0, 1, name=...), ...))   small graphs: at most 200 nodes

Every picture has ``svg() -> str`` and ``lines(width=..., ascii_only=...) -> list[str]``. ``words`` is
``Labels(title, about, across=..., up=...)``: ``about`` is a one-sentence text alternative. Colours are never the only
distinction: bars are hatched, lines dashed, heat varies in lightness and graphs' groups have shapes.
"""

from siloquent.charts.bars import Bars
from siloquent.charts.chart import Chart, Labels, Series
from siloquent.charts.graph import Edge, Graph, Node
from siloquent.charts.heatmap import HeatMap
from siloquent.charts.lines import Lines

__all__ = ["Bars", "Chart", "Edge", "Graph", "HeatMap", "Labels", "Lines", "Node", "Series"]
