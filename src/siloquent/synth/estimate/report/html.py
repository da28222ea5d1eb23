"""The quality report as one self-contained page: text, tables, and pictures as inline SVG."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from siloquent.charts import Bars, Edge, Graph, HeatMap, Labels, Node, Series
from siloquent.synth.spec.report import ColumnReport, QualityReport

_STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{border:1px solid #bbb;padding:.25rem .6rem;text-align:left}"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}svg{max-width:100%;height:auto}"
    "details{margin:.5rem 0}.broken{color:#a00;font-weight:bold}"
)
MAX_BARS = 40
MAX_NODES = 60


def render_page(report: QualityReport) -> str:
    """Return the whole HTML document; all its text is escaped, and nothing is loaded from elsewhere."""
    title = f"Synthetic {report.table}"
    parts = [
        _render_privacy(report),
        _render_constraints(report),
        _render_paid(report),
        _render_columns(report),
        _render_pairs(report),
        _render_section(
            "What to know", "<ul>" + "".join(f"<li>{escape(each)}</li>" for each in report.known) + "</ul>"
        ),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _render_section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _render_table(head: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    top = "".join(f'<th scope="col">{escape(each)}</th>' for each in head)
    body = "".join("<tr>" + "".join(_render_cell(value) for value in line) + "</tr>" for line in lines)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _render_cell(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return f"<td>{ {True: 'yes', False: 'no', None: ''}[value] }</td>"
    if isinstance(value, int):
        return f'<td class="n">{value:,}</td>'
    if isinstance(value, float):
        return f'<td class="n">{value:.4g}</td>'
    return f"<td>{escape(str(value))}</td>"


def _render_privacy(report: QualityReport) -> str:
    whole = sum(price for _, price in report.prices) or 1.0
    names, shares = [name for name, _ in report.prices], [price / whole for _, price in report.prices]
    words = Labels("What the budget bought", "One bar a step: its share of the price.", across="share of the price")
    bars = Bars(words, names, (Series(shares),)).svg()
    ledger, seq, digest = report.receipt
    said = (
        f"<p>{escape(report.guarantee)}</p><p>{report.rows:,} rows; the table has about {report.total:,}. Receipt: "
        f"ledger {escape(ledger)}, entry {seq}, {escape(digest[:16])}.</p>"
    )
    return _render_section("Privacy", said + bars + _render_table(("step", "share"), zip(names, shares, strict=True)))


def _render_constraints(report: QualityReport) -> str:
    head = ("constraint", "hard", "how it is kept", "broken, both directions", "one direction", "of", "rate asked for")
    lines = [(k.text, k.hard, k.how, k.pairs, k.one_way, k.possible, k.rate) for k in report.constraints]
    if not lines:
        return _render_section("Constraints", "<p>The table declares none.</p>")
    said = "<p>No hard constraint is broken.</p>" if not report.broken else '<p class="broken">Broken.</p>'
    return _render_section("Constraints", said + _render_table(head, lines))


def _render_paid(report: QualityReport) -> str:
    if not report.paid:
        return _render_section("Compared with the truth", "<p>Nothing was bought; <code>report</code> was 0.</p>")
    lines = [(paid.name, paid.value, f"{paid.low:.4g} to {paid.high:.4g}") for paid in report.paid]
    return _render_section("Compared with the truth", _render_table(("figure", "value", "95 % interval"), lines))


def _render_columns(report: QualityReport) -> str:
    return _render_section("Columns", "".join(_render_column(column) for column in report.columns))


def _render_column(column: ColumnReport) -> str:
    rows = list(zip(column.groups, column.noisy, column.low, column.high, column.output, strict=True))
    shown = rows[:MAX_BARS]
    words = Labels(
        column.name,
        f"Shares of the groups of {column.name}: as measured with noise, with a 95 % band, and in the output.",
        across="share of the rows",
    )
    measured = Series([r[1] for r in shown], low=[r[2] for r in shown], high=[r[3] for r in shown], name="measured")
    picture = Bars(words, [r[0] for r in shown], (measured, Series([r[4] for r in shown], name="output"))).svg()
    table = _render_table(("group", "measured", "from", "to", "output"), rows)
    return f"{picture}<details><summary>{escape(column.name)} as a table</summary>{table}</details>"


def _render_pairs(report: QualityReport) -> str:
    if not report.pairs:
        return ""
    names = [column.name for column in report.columns]
    grid: list[list[float | None]] = [[None] * len(names) for _ in names]
    for pair in report.pairs:
        a, b = names.index(pair.first), names.index(pair.second)
        grid[a][b] = grid[b][a] = pair.off
    words = Labels(
        "How far pairs may be off",
        "One place a pair of columns: the bound on its total variation, 1 where none is known.",
    )
    picture = HeatMap(words, grid, across=names, up=names).svg()
    lines = [(pair.first, pair.second, pair.measured, pair.off) for pair in report.pairs]
    table = _render_table(("column", "column", "measured", "may be off by"), lines)
    return _render_section(
        "Pairs of columns",
        f"{picture}<details><summary>as a table</summary>{table}</details>{_render_tree(report, names)}",
    )


def _render_tree(report: QualityReport, names: Sequence[str]) -> str:
    """Draw the model's graph: columns that share a clique are joined."""
    if len(names) > MAX_NODES:
        return ""
    joined = {
        tuple(sorted((names.index(a), names.index(b)))) for clique in report.cliques for a in clique for b in clique
    }
    words = Labels("What the model joins", "One node a column; columns whose joint the model holds are linked.")
    edges = [Edge(a, b, weight=0.3) for a, b in sorted(joined) if a != b]
    graph = Graph(words, [Node(name) for name in names], edges).svg()
    cliques = _render_table(("clique",), [(", ".join(clique),) for clique in report.cliques])
    return f"{graph}<details><summary>cliques</summary>{cliques}</details>"
