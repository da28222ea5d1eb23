"""A discovery as the ledger stores it, and as the values that callers get."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from siloquent.charts.text import format_label
from siloquent.discover.estimate import OuterBins, compute_shortfall, find_outer_bins
from siloquent.errors import ReleaseError
from siloquent.fixes import run
from siloquent.foreign import load_json
from siloquent.privacy.guarantee import Guarantee, format_digits
from siloquent.readable import Readable
from siloquent.releases.provenance import Provenance
from siloquent.schema.attribute import OTHER
from siloquent.schema.domains import MAX_DOMAIN_BYTES, MAX_DOMAIN_VALUES, render_domain, render_text

if TYPE_CHECKING:
    from siloquent.discover.plan import BoundsPlan, KeysPlan
    from siloquent.schema import Attribute

MAX_KEYS = MAX_DOMAIN_VALUES
MAX_TEXT = MAX_DOMAIN_BYTES // 2
MAX_MARKS = 600_000
"""The number of commas and line ends in a domain file, which its readers limit."""
_SHOWN = 10


@dataclass(frozen=True, slots=True, repr=False)
class DiscoveredKeys(Readable):
    """The keys of a column that enough units share, sorted by bytes: public from now on.

    ``threshold``: the noisy number of units that each key reached; ``deviation``: of the noise, in units. ``null``: the
    meaning of NULL, as a table file writes it.
    """

    table: str
    column: str
    name: str
    keys: tuple[str, ...]
    threshold: int
    at_least: int
    keys_each: int
    deviation: float
    guarantee: Guarantee
    provenance: Provenance
    null: str = '"drop"'

    def __str__(self) -> str:
        shown = ", ".join(map(format_label, self.keys[:_SHOWN])) + (", ..." if len(self.keys) > _SHOWN else "")
        return "\n".join([self.describe(), *([f"Values: {shown}"] if self.keys else []), self.guarantee.describe()])

    def describe(self) -> str:
        """Describe what was found, and the line of the table file that uses it."""
        if not self.keys:
            return (
                f"No value of {self.table}.{self.column} is shared by about {self.threshold:,} units or more, so no "
                "file was written. A larger budget finds rarer values."
            )
        count = "1 value" if len(self.keys) == 1 else f"{len(self.keys):,} values"
        return (
            f"{count} of {self.table}.{self.column}, each shared by about {self.threshold:,} units or more. All "
            f'others will be one group, "{OTHER}". To use them: {self.declaration}'
        )

    @property
    def declaration(self) -> str:
        """The attribute of the table file that uses the released keys, with NULL as declared; empty without keys."""
        if not self.keys:
            return ""
        named = f'name = {render_text(self.column)}, type = "category"'
        values = f'values = {{ released = {render_text(self.name)} }}, other = "cell"'
        return f"{{ {named}, {values}, null = {self.null} }}"

    def to_toml(self) -> str:
        """Render the file ``domains/NAME.toml``."""
        facts = {
            "threshold": self.threshold,
            "at_least": self.at_least,
            "keys_each": self.keys_each,
            **{key: value for key, value in self.provenance.to_dict().items() if value != ""},
        }
        return render_domain(self.name, self.table, self.column, self.keys, facts)


@dataclass(frozen=True, slots=True, repr=False)
class ProposedBounds(Readable):
    """Bounds between which nearly all of a column's values lie; a proposal that changes no declaration.

    ``lo`` and ``hi`` are None if the noise hides them. ``below`` and ``above``: the largest shares of all values that
    may lie beyond them, together with probability 0.95. ``enough``: the epsilon or rho that would about do where they
    are hidden; 0 if they are not.
    """

    table: str
    column: str
    lo: Decimal | date | datetime | None
    hi: Decimal | date | datetime | None
    below: float
    above: float
    deviation: float
    guarantee: Guarantee
    provenance: Provenance
    enough: Fraction = Fraction(0)

    def __str__(self) -> str:
        return f"{self.describe()}\n{self.guarantee.describe()}"

    def describe(self) -> str:
        """Describe the proposal, and the change of the table file that applies it."""
        if self.lo is None:
            symbol = "rho" if self.guarantee.definition == "zcdp" else "epsilon"
            return (
                f"The noise of {self.deviation:.3g} on each count hides the bounds of {self.table}.{self.column}. "
                f"{symbol} {format_digits(self.enough, 2)} or more is needed: spend more, or keep the declared bounds."
            )
        return (
            f"Of the values of {self.table}.{self.column}, at most {_format_share(self.below)} lie below {self.lo} "
            f"and at most {_format_share(self.above)} above {self.hi}, with probability 0.95. To use these bounds: "
            f"{self.declaration}"
        )

    @property
    def declaration(self) -> str:
        """The keys of the table file that apply the bounds."""
        return "" if self.lo is None else f"lo = {_write(self.lo)}, hi = {_write(self.hi)}"


def is_releasable(key: str) -> bool:
    """Return whether ``key`` may be a declared value: no NUL, and not the name of the cell of all others."""
    return "\0" not in key and key != OTHER


def pack_keys(plan: KeysPlan, keys: Sequence[str]) -> bytes:
    """Pack keys, those of most units first, as the ledger stores them: as many as a domain file can hold."""
    size, marks, kept = 0, 0, []
    for key in keys:
        size += len(render_text(key).encode()) + 6 * key.count(".") + 8
        marks += key.count(",") + 2
        if size > MAX_TEXT or marks > MAX_MARKS:
            break
        kept.append(key)
    spec = plan.spec
    return _pack(
        "keys",
        spec,
        keys=sorted(kept, key=str.encode),
        threshold=plan.event.threshold,
        at_least=spec.at_least,
        keys_each=spec.keys_each,
        deviation=plan.deviation,
    )


def pack_bounds(plan: BoundsPlan, noisy: NDArray[np.int64]) -> bytes:
    """Pack a noisy histogram as the ledger stores it, with the declared bounds of its cells."""
    return _pack(
        "bounds",
        plan.spec,
        starts=plan.starts.tolist(),
        counts=noisy.tolist(),
        deviation=plan.deviation,
        noise=plan.noise,
        declared=_list_bounds(plan.schema.domain[plan.spec.column]),
    )


def unpack_keys(
    payload: bytes, name: str, guarantee: Guarantee, provenance: Provenance, *, null: str = '"drop"'
) -> DiscoveredKeys:
    """Unpack the keys of a stored discovery.

    Args:
        null: What NULL means in the table file, as written there.
    Raises:
        ReleaseError: it is none.
    """
    plain = _unpack(payload, "keys")
    return DiscoveredKeys(
        table=plain["table"],
        column=plain["column"],
        name=name,
        keys=tuple(plain["keys"]),
        threshold=plain["threshold"],
        at_least=plain["at_least"],
        keys_each=plain["keys_each"],
        deviation=plain["deviation"],
        guarantee=guarantee,
        provenance=provenance,
        null=null,
    )


def read_keys(payload: bytes) -> tuple[str, str, tuple[str, ...]] | None:
    """Return table, column and keys of a stored discovery of keys; None if ``payload`` is another release."""
    try:
        plain = _unpack(payload, "keys")
    except ReleaseError:
        return None
    return plain["table"], plain["column"], tuple(plain["keys"])


def read_discovered(payload: bytes) -> tuple[str, str, str] | None:
    """Return what a stored discovery is of, ``keys`` or ``bounds``, its table and column; None for other releases."""
    for kind in ("keys", "bounds"):
        try:
            plain = _unpack(payload, kind)
        except ReleaseError:
            continue
        return kind, plain["table"], plain["column"]
    return None


def unpack_bounds(payload: bytes, attribute: Attribute, guarantee: Guarantee, provenance: Provenance) -> ProposedBounds:
    """Unpack a stored histogram and propose bounds of the cells as they are declared now.

    Raises:
        ReleaseError: it is none, or the column's bounds or grid were changed since.
    """
    plain = _unpack(payload, "bounds")
    if plain["declared"] != _list_bounds(attribute):
        raise ReleaseError(
            f"{attribute.name!r} has other bounds or another grid than when this was measured; the charge stands.",
            fix="restore them to read the old proposal, or ask again with a new key",
        )
    bins, shortfall = _find_bins(plain)
    is_hidden = bins is None or shortfall > 1
    lo, hi = _place_bounds(plain, attribute) or (None, None)
    paid = guarantee.rho or guarantee.epsilon
    return ProposedBounds(
        table=plain["table"],
        column=plain["column"],
        lo=None if lo is None else _get_value(attribute, lo),
        hi=None if hi is None else _get_value(attribute, hi),
        below=1.0 if bins is None else bins.below,
        above=1.0 if bins is None else bins.above,
        deviation=plain["deviation"],
        guarantee=guarantee,
        provenance=provenance,
        enough=paid * Fraction(shortfall) ** (2 if plain["noise"] == "gaussian" else 1) if is_hidden else Fraction(0),
    )


def _find_bins(plain: Mapping[str, Any]) -> tuple[OuterBins | None, float]:
    """Return the bins that hold nearly all values, and by how much the noise hides them: not, up to 1."""
    counts = np.array(plain["counts"], dtype=np.int64)
    bins = find_outer_bins(counts, plain["deviation"], plain["noise"])
    return bins, compute_shortfall(counts, plain["deviation"], plain["noise"])


def _place_bounds(plain: Mapping[str, Any], attribute: Attribute) -> tuple[int, int] | None:
    """Return the proposed bounds as places; None if the noise hides them."""
    (bins, shortfall), starts = _find_bins(plain), [*plain["starts"], attribute.steps]
    return None if bins is None or shortfall > 1 else (starts[bins.low], starts[bins.high + 1] - 1)


def propose_bounds(payload: bytes, attribute: Attribute) -> tuple[object, object] | None:
    """Return the bounds that a discovery proposed of ``attribute``, as declared then; None if the noise hid them.

    Raises:
        ReleaseError: it is another discovery.
    """
    places = _place_bounds(_unpack(payload, "bounds"), attribute)
    return None if places is None else (_get_value(attribute, places[0]), _get_value(attribute, places[1]))


def read_bounds(payload: bytes) -> tuple[str, str, tuple[str, str, str]] | None:
    """Return table, column, and lo, hi and grid as declared then, of a discovery of bounds; None for anything else."""
    try:
        plain = _unpack(payload, "bounds")
        lo, hi, grid = plain["declared"]
        return str(plain["table"]), str(plain["column"]), (str(lo), str(hi), str(grid))
    except (ReleaseError, KeyError, ValueError, TypeError):
        return None


def _pack(kind: str, spec: Any, **found: object) -> bytes:
    plain = {"discovery": 1, "kind": kind, "table": spec.table, "column": spec.column, **found}
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _unpack(payload: bytes, kind: str) -> dict[str, Any]:
    try:
        plain = load_json(payload)
        if plain["discovery"] == 1 and plain["kind"] == kind:
            return dict(plain)
    except (ValueError, KeyError, TypeError):
        pass
    raise ReleaseError(f"This is not a discovery of {kind}.", fix=run("ledger verify"))


def _list_bounds(attribute: Attribute) -> list[str]:
    return [str(attribute.lo), str(attribute.hi), str(attribute.grid)]


def _get_value(attribute: Attribute, place: int) -> Decimal | date | datetime:
    if attribute.is_temporal:
        value: date | datetime = attribute.label(place)
        return value
    assert isinstance(attribute.lo, Decimal)
    assert attribute.grid is not None
    return attribute.lo + place * attribute.grid


def _format_share(share: float) -> str:
    return f"{format_digits(Fraction(100 * share), 2)} %"


def _write(value: Decimal | date | datetime | None) -> str:
    return value.isoformat() if isinstance(value, (date, datetime)) else format(value or Decimal(0), "f")
