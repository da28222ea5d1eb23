"""The report for a data protection officer as one HTML page that needs no other file, to be read and printed."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from siloquent.charts.text import clean_text
from siloquent.documents.reports.protection import ReportSection, list_sections

_STYLE = """
body { font: 10pt/1.45 system-ui, sans-serif; color: #1b1b1f; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2rem; border-top: 1px solid #8a8a94; padding-top: .6rem; }
table { border-collapse: collapse; width: 100%; margin: .6rem 0; } caption { text-align: left; font-weight: 600; }
th, td { text-align: left; vertical-align: top; padding: .2rem .5rem; border-bottom: 1px solid #c5c5cc; }
dt { font-weight: 600; } dd { margin: 0 0 .3rem 1rem; } td, th, dd { overflow-wrap: anywhere; }
@media print { body { margin: 0; max-width: none; } tr, dt { break-inside: avoid; }
  thead { display: table-header-group; } }
"""
_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>siloquent: report on declared tables</title>"""


def render_report_page(document: Mapping[str, Any]) -> str:
    """Return the whole page: it loads nothing and runs nothing."""
    return f"{_HEAD}<style>{_STYLE}</style></head><body>\n{render_report_body(document)}\n</body></html>\n"


def render_report_body(document: Mapping[str, Any]) -> str:
    """Return the sections as HTML; every text is escaped."""
    first, *others = list_sections(document)
    return "\n".join([_render_section(first, "h1"), *(_render_section(one, "h2") for one in others)])


def _render_section(section: ReportSection, heading: str) -> str:
    facts = "".join(f"<dt>{_text(label)}</dt><dd>{_text(said)}</dd>" for label, said in section.facts)
    tables = "".join(_render_table(section.title, *one) for one in section.tables)
    facts = f"<dl>{facts}</dl>" if facts else ""
    return f"<section><{heading}>{_text(section.title)}</{heading}>{facts}{tables}</section>"


def _render_table(title: str, caption: str, headings: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> str:
    head = "".join(f'<th scope="col">{_text(one)}</th>' for one in headings)
    body = "".join(
        f'<tr><th scope="row">{_text(row[0])}</th>{"".join(f"<td>{_text(one)}</td>" for one in row[1:])}</tr>'
        for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(f"{caption}: {title}")}"><table>'
        f"<caption>{_text(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _text(text: str) -> str:
    return escape(clean_text(text))
