"""One picture of each kind, small enough to be read in full; ``python -m tests.unit.pictures.examples`` draws anew."""

from __future__ import annotations

from pathlib import Path

from siloquent.charts import Bars, Chart, Edge, Graph, HeatMap, Labels, Lines, Node, Series

GOLDEN = Path(__file__).parent / "golden"
COUNTS = Series((4123, -37, 900, None), low=(3923, -237, 700, None), high=(4323, 163, 1100, None))
EXAMPLES: dict[str, Chart] = {
    "bars": Bars(
        Labels("Count by ward", "Four wards, from -37 to 4,123 rows.", across="rows"),
        ("A", "B<b>", "ICU\x1b[2J", "NULL"),
        (COUNTS,),
    ),
    "pairs": Bars(
        Labels("Before and after", "Two wards, twice."),
        ("A", "B"),
        (Series((3, 1), name="before"), Series((2, 4), name="after")),
    ),
    "lines": Lines(
        Labels("Count below age", "It grows.", across="age", up="rows"),
        (0, 10, 20, 30, 40),
        (
            Series((1, 4, 9, None, 25), low=(0, 3, 8, None, 24), high=(2, 5, 10, None, 26), name="women"),
            Series((5, 5, 5, 5, 5), name="men"),
        ),
    ),
    "heat": HeatMap(
        Labels("Age by ward", "Six places, one empty.", across="ward", up="age"),
        ((0, 1, 2), (2, 4, None)),
        across=("A", "B", "C"),
        up=("young", "old"),
    ),
    "graph": Graph(
        Labels("Dependencies", "Ward decides nurse; two weak links."),
        (Node("ward"), Node("nurse", 1), Node("day", 2), Node("age", 3)),
        (Edge(0, 1, 1.0, "fd", directed=True), Edge(1, 2, 0.5), Edge(2, 0, 0.2)),
    ),
}

if __name__ == "__main__":
    for name, picture in EXAMPLES.items():
        (GOLDEN / f"{name}.svg").write_text(picture.svg(), encoding="utf-8")
