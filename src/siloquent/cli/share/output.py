"""Display of plans, releases, advice and models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.charts.text import clean_text, format_label
from siloquent.cli.base.problems import clean_lines
from siloquent.cli.base.screen import LEFT, RIGHT, Screen
from siloquent.documents.prices.plans import price_words

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.federation.role import SessionResult
    from siloquent.privacy import Cost
    from siloquent.share import Advice, Agreement, Model, SharePlan, ShareRelease, ShareSpec

SHOWN = 5
_MODELS = {
    "constant": "always the most frequent label",
    "alone": "your rows only",
    "shared": "the others' releases only",
    "stacked": "your rows and the others' releases",
}


def show_plan(screen: Screen, planned: SharePlan, left: Cost) -> None:
    """Print the price first, then the counts and their noise."""
    from siloquent.documents.ledger import format_significant
    from siloquent.privacy import get_accountant

    book, relative = get_accountant(planned.schema.budget.accountant), planned.compute_relative_noise()
    bins = [("bins", clean_text(", ".join(_list_widths(planned))))]
    noise = f"{planned.noise}, +-{_format_three_digits(planned.deviation)} per number"
    if relative is not None:
        noise += f", {_format_three_digits(relative)} times the average cell over all silos"
    screen.write_facts(
        [
            ("price", f"{price_words(planned)}; learning from it is free"),
            ("left", f"{book.symbol} {format_significant(Fraction(left.amount, book.scale), 'down')}"),
            ("counted", f"{_describe_method(planned.agreement)}: {planned.numbers:,} numbers"),
            *bins,
            ("noise", noise),
            *_describe_silos(planned.spec),
            (
                "agreement",
                f"{planned.agreement.digest[:16]}: must be equal at every silo, or releases cannot be combined",
            ),
            ("data", "not read; nothing was spent"),
            *[("note", clean_lines(note)) for note in planned.notes],
        ]
    )


def _describe_silos(spec: ShareSpec) -> list[tuple[str, str]]:
    """Describe a secure sum: the number of silos it needs, and how many may collude."""
    if spec.trust == "local" or spec.honest is None:
        return []
    least = f"{spec.agents} take part, and a sum needs {spec.honest + spec.colluding} of them"
    return [("silos", f"{least}; at most {spec.colluding} of them may reveal their noise to others")]


def _describe_method(agreement: Agreement) -> str:
    return f"{agreement.method} of {clean_text(agreement.label.name)}"


def _list_widths(planned: SharePlan) -> list[str]:
    encoding = planned.encoding
    return [f"{a.name} {width}" for a, width in zip(encoding.features, encoding.widths, strict=True)]


def show_release(screen: Screen, release: ShareRelease, folder: Path) -> None:
    """Print a release's content and guarantee."""
    names = ", ".join(attribute.name for attribute in release.agreement.features)
    part = release.part
    screen.write_facts(
        [
            ("holds", f"{_describe_method(release.agreement)} by {clean_text(names)}"),
            ("size", f"{len(release.to_bytes()) / 1000:,.1f} kB, {release.silos} silo{'s' * (release.silos > 1)}"),
            ("agreement", release.agreement.digest[:16]),
            ("privacy", clean_lines(release.describe_guarantee())),
            ("receipt", f"entry {part.seq} ({part.hash[:12]}) of ledger {part.ledger[:12]}"),
            ("folder", str(folder)),
            *[("note", clean_lines(note)) for note in release.notes],
        ]
    )


def show_sum(screen: Screen, spec: ShareSpec, held: SessionResult) -> None:
    """Print the silos whose rows are in the sum, and its location."""
    screen.write_facts(
        [
            ("sum", f"{spec.method} of {clean_text(spec.label)}: {held.result.total.size:,} numbers"),
            ("silos", clean_text(", ".join(held.result.parties))),
            ("session", held.session[:16]),
            ("kept", "by every silo in the sum, as a release in its own workspace: siloquent release list"),
        ]
    )


def show_advice(screen: Screen, advice: Advice, releases: Sequence[ShareRelease]) -> None:
    """Print the four models side by side, then the advice."""
    rows = [
        (
            _MODELS[name],
            *(_format_three_digits(value) for value in (found.error, found.balanced, found.auc, found.loss)),
        )
        for name, found in advice.measures.items()
    ]
    heads = ("error", "balanced error", "AUC", "loss")
    if rows:
        screen.write_table([("model", LEFT), *((head, RIGHT) for head in heads)], rows)
    screen.write_line(clean_text(advice.describe()))
    silos = sum(release.silos for release in releases)
    screen.write_facts(
        [
            (
                "difference",
                f"loss {_format_interval(advice.loss)}; error {_format_interval(advice.error)} "
                "(stacked minus your rows only, 95 %)",
            ),
            ("from", f"{silos} silo{'s' * (silos > 1)}: {clean_text(', '.join(release.name for release in releases))}"),
            ("private", "this table describes your exact rows: it is not a release. Nothing was spent."),
        ]
    )


def _format_interval(difference: Any) -> str:
    return f"{difference.mean:+.4f} [{difference.low:+.4f}, {difference.high:+.4f}]"


def show_model(screen: Screen, model: Model, file: Path) -> None:
    """Print the model, the strongest predictors of the label, and whether it may be given away."""
    told = "computed from your exact rows: do not share it" if model.holds_own_rows else "computed from releases "
    "only: it may be shared"
    screen.write_facts(
        [
            (
                "model",
                f"{model.kind}, {clean_text(model.agreement.label.name)} from {len(model.agreement.features)} features",
            ),
            ("from", f"{model.silos} other silo{'s' * (model.silos != 1)}{' and your rows' * model.holds_own_rows}"),
            ("private", told),
            ("file", str(file)),
        ]
    )
    speaking = model.list_strongest(SHOWN)
    if speaking:
        heads = [("feature", LEFT), ("value", LEFT), ("weight", RIGHT)]
        screen.write_table(heads, [(clean_text(a), clean_text(b), f"{weight:+.2f}") for a, b, weight in speaking])


def show_rows(screen: Screen, table: pa.Table, releases: Sequence[ShareRelease], file: Path) -> None:
    """Print the first rows, and the location of all of them."""
    shown = table.slice(0, SHOWN).to_pylist()
    sides = [(name, RIGHT if _is_number(table, name) else LEFT) for name in table.column_names]
    screen.write_table(sides, [[format_label(row[name]) for name in table.column_names] for row in shown])
    screen.write_line(f"{table.num_rows:,} rows in {file}. Free: drawn from the releases of {len(releases)} silos.")


def _is_number(table: pa.Table, name: str) -> bool:
    import pyarrow as pa

    kind = table.schema.field(name).type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _format_three_digits(value: float) -> str:
    """Return three digits, as plain decimal text; empty for a value that does not apply."""
    if not math.isfinite(value):
        return ""
    return f"{value:,.3f}" if abs(value) < 10 else f"{value:,.0f}"
