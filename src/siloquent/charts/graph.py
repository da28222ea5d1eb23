"""Small graphs: nodes on a circle, or at given positions, and edges with their strength as width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from siloquent.charts.chart import Labels, clean_name, format_short
from siloquent.charts.svg import COLOURS, GREY, draw_text, format_coordinate, render_document
from siloquent.errors import RequestError

SIZE, EDGE, TOP, MAX_NODES, MAX_EDGES = 480, 90, 36, 200, 2_000


@dataclass(frozen=True, slots=True)
class Node:
    """A named node; nodes of one ``group`` share colour and shape. ``place``: (x, y) in 0..1, y upwards."""

    name: str
    group: int = 0
    place: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge between the nodes with indices ``start`` and ``end``; ``weight`` in 0..1 is its width."""

    start: int
    end: int
    weight: float = 1.0
    name: str = ""
    directed: bool = False
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph of at most 200 nodes and 2,000 edges."""

    words: Labels
    nodes: Sequence[Node]
    edges: Sequence[Edge]

    def __post_init__(self) -> None:
        if not 1 <= len(self.nodes) <= MAX_NODES or len(self.edges) > MAX_EDGES:
            raise RequestError(f"A graph is drawn with 1 to {MAX_NODES} nodes and at most {MAX_EDGES:,} edges.")
        for edge in self.edges:
            if not (0 <= edge.start < len(self.nodes) and 0 <= edge.end < len(self.nodes)):
                raise RequestError("An edge joins two nodes of the graph.")
            if not 0 <= edge.weight <= 1:
                raise RequestError(f"An edge's weight must be between 0 and 1, not {edge.weight}.")

    def svg(self) -> str:
        """Return the picture, 660 wide."""
        places = [self._compute_position(i) for i in range(len(self.nodes))]
        body = [
            '<defs><marker id="ID-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" '
            f'orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" fill="{GREY}"/></marker></defs>'
        ]
        body += [_draw_edge(edge, places) for edge in self.edges]
        body += [_draw_edge_name(edge, places) for edge in self.edges if edge.name]
        for node, (x, y) in zip(self.nodes, places, strict=True):
            body.append(_draw_shape(node.group, x, y))
            anchor = "middle" if abs(x - SIZE / 2 - EDGE) < 60 else "end" if x < SIZE / 2 + EDGE else "start"
            shift = {"middle": 0, "end": -12, "start": 12}[anchor]
            above = -14 if y < TOP + EDGE + SIZE / 2 else 22
            body.append(draw_text(x + shift, y + (above if anchor == "middle" else 4), node.name, anchor=anchor))
        return render_document(self.words, SIZE + 2 * EDGE, TOP + SIZE + EDGE, body)

    def lines(self, *, width: int = 80, ascii_only: bool = False) -> list[str]:
        """Return one line an edge, strongest first, then the nodes without any."""
        drawn = []
        for edge in sorted(self.edges, key=lambda edge: (-edge.weight, edge.start, edge.end)):
            start, end = (clean_name(self.nodes[i].name) for i in (edge.start, edge.end))
            arrow = ("--> " if edge.directed else "--- ") if ascii_only else ("──▶ " if edge.directed else "─── ")
            words = clean_name(edge.name) or format_short(edge.weight)
            drawn.append(f"{start} {arrow}{end}  {words}"[:width].rstrip())
        joined = {place for edge in self.edges for place in (edge.start, edge.end)}
        alone = [clean_name(node.name) for i, node in enumerate(self.nodes) if i not in joined]
        return [*drawn, *(name[:width] for name in alone)]

    def _compute_position(self, i: int) -> tuple[float, float]:
        given = self.nodes[i].place
        if given is None:
            turn = 2 * math.pi * i / len(self.nodes)
            given = (0.5 + 0.5 * math.sin(turn), 0.5 + 0.5 * math.cos(turn))
        inner = SIZE - 40
        return EDGE + 20 + given[0] * inner, TOP + 40 + (1 - given[1]) * inner


def _draw_edge(edge: Edge, places: Sequence[tuple[float, float]]) -> str:
    (x1, y1), (x2, y2) = places[edge.start], places[edge.end]
    if edge.start == edge.end:
        path = f"M{format_coordinate(x1)} {format_coordinate(y1)}c-24 -32 24 -32 0 0"
    else:
        far = math.hypot(x2 - x1, y2 - y1) or 1.0
        cut = 10 / far  # edges end at the rims of their nodes, so that arrows are visible
        end = f"{format_coordinate(x2 - (x2 - x1) * cut)} {format_coordinate(y2 - (y2 - y1) * cut)}"
        path = f"M{format_coordinate(x1)} {format_coordinate(y1)}L{end}"
    arrow = ' marker-end="url(#ID-arrow)"' if edge.directed else ""
    dashes = ' stroke-dasharray="6 4"' if edge.dashed else ""
    width = format_coordinate(1 + 4 * edge.weight)
    return f'<path d="{path}" fill="none" stroke="{GREY}" stroke-width="{width}"{dashes}{arrow}/>'


def _draw_edge_name(edge: Edge, places: Sequence[tuple[float, float]]) -> str:
    (x1, y1), (x2, y2) = places[edge.start], places[edge.end]
    return draw_text((x1 + x2) / 2, (y1 + y2) / 2 - 4, edge.name, size=11)


def _draw_shape(group: int, x: float, y: float) -> str:
    """Draw a circle, square, triangle or diamond, filled or open."""
    colour, kind = COLOURS[group % len(COLOURS)], group % 4
    outline = f' stroke="{colour}" stroke-width="2"'
    inside = f'fill="{colour}"' if group % 8 < 4 else 'fill="#ffffff"'
    if kind == 0:
        return f'<circle cx="{format_coordinate(x)}" cy="{format_coordinate(y)}" r="8" {inside}{outline}/>'
    points = {
        1: ((-7, -7), (7, -7), (7, 7), (-7, 7)),
        2: ((0, -9), (9, 7), (-9, 7)),
        3: ((0, -10), (10, 0), (0, 10), (-10, 0)),
    }[kind]
    path = " ".join(f"{format_coordinate(x + dx)},{format_coordinate(y + dy)}" for dx, dy in points)
    return f'<polygon points="{path}" {inside}{outline}/>'
