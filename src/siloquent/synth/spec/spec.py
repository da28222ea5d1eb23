"""The request of a synthesis: one frozen, self-validating value, from Python or from a TOML file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from siloquent.errors import RequestError
from siloquent.fixes import UseOption, join_choices
from siloquent.foreign import load_toml, read_bounded
from siloquent.foreign.documents import MAX_TOML_BYTES
from siloquent.foreign.spec_types import check_types
from siloquent.privacy import parse_exact
from siloquent.privacy.budget import Budget, Exact
from siloquent.synth.spec.chain import OURS, ChainSpec, parse_chain_spec

Quality = Literal["fast", "default", "best"]
QUALITIES: tuple[Quality, ...] = ("fast", "default", "best")
ENGINES = ("tree", "chain")
MAX_ROWS = 10**8
MAX_SHARES = Fraction(3, 5)


@dataclass(frozen=True, slots=True)
class SynthSpec:
    """The request of a synthetic table.

    Args:
        table: A declared table.
        budget: The budget of the run.
        rows: The number of output rows; None: as many as the table has, up to noise.
        engine: "tree", marginals on a junction tree; "chain", conditional models trained by noisy gradients (Kamino).
        quality: The time and memory that the model may take: "fast", "default" or "best".
        columns: The columns to synthesise; None: all.
        targets: Columns that others will be predicted from: their joints with two others are measured too.
        constraints: "declared", or "none".
        references: Public CSV files that give a functional dependency's table, by the names of its columns:
            ``{"zip_city": "zip_city.csv"}``.
        rates: Public rates of soft constraints, by their number from 1: the output meets them.
        measure_rates: The share of the budget that buys the rates of the other soft constraints.
        report: The share of the budget that buys a comparison of the output with the truth.
        seed: The seed of the drawn rows; noise has none.
        chain: The settings of engine "chain".
        weights: Of soft constraints in engine "chain", by number: the cost of each broken pair, for 5,000 rows.
    """

    table: str
    budget: Budget
    rows: int | None = None
    engine: str = "tree"
    quality: Quality = "default"
    columns: tuple[str, ...] | None = None
    targets: tuple[str, ...] = ()
    constraints: Literal["declared", "none"] = "declared"
    references: Mapping[str, str] = field(default_factory=dict)
    rates: Mapping[str, Exact] = field(default_factory=dict)
    measure_rates: Exact = 0
    report: Exact = "0.02"
    seed: int = 0
    chain: ChainSpec = OURS
    weights: Mapping[str, Exact] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        for name in ("columns", "targets"):
            given = getattr(self, name)
            if given is not None and len(set(given)) != len(given):
                raise RequestError(f"{name} must not name a column twice.")
        if self.rows is not None and not (_is_whole(self.rows) and 1 <= self.rows <= MAX_ROWS):
            raise RequestError(
                f"rows must be a whole number from 1 to {MAX_ROWS:,}, not {self.rows!r}.", fix=UseOption("rows", 10000)
            )
        if not _is_whole(self.seed) or not 0 <= self.seed < 2**63:
            raise RequestError(f"seed must be a whole number from 0 to 2^63 - 1, not {self.seed!r}.")
        self._check_words()
        self._check_shares()

    def _check_words(self) -> None:
        if self.quality not in QUALITIES:
            raise RequestError(f"quality must be one of {', '.join(QUALITIES)}, not {self.quality!r}.")
        if self.constraints not in ("declared", "none"):
            raise RequestError(f"constraints must be 'declared' or 'none', not {self.constraints!r}.")
        if self.engine not in ENGINES:
            raise RequestError(
                f"Engine {self.engine!r} does not exist.",
                fix=join_choices([UseOption("engine", "tree"), UseOption("engine", "chain")]),
            )
        if self.engine != "chain" and (self.weights or self.chain != OURS):
            raise RequestError("chain and weights are settings of engine 'chain'.", fix=UseOption("engine", "chain"))
        for name, weight in self.weights.items():
            if not str(name).isdigit():
                raise RequestError(
                    f"weights must map a constraint's number to a number, not {name!r} = {weight!r}.",
                    fix=UseOption("weights", {"3": "0.7"}),
                )
            parse_exact(weight)

    def _check_shares(self) -> None:
        for name in ("measure_rates", "report"):
            if not 0 <= parse_exact(getattr(self, name)) < 1:
                raise RequestError(
                    f"{name} must be a share of the budget, at least 0 and below 1, not {getattr(self, name)!r}."
                )
        if self.shares >= MAX_SHARES:
            raise RequestError(
                "measure_rates and report must take less than three fifths of the budget; the model needs the rest.",
                fix=UseOption("report", 0.02),
            )
        for name, rate in self.rates.items():
            if not (str(name).isdigit() and 0 <= parse_exact(rate) <= 1):
                raise RequestError(
                    f"rates must map a constraint's number to a share, not {name!r} = {rate!r}.",
                    fix=UseOption("rates", {"3": "0.018"}),
                )

    @property
    def shares(self) -> Fraction:
        """The part of the budget that is not spent on the model."""
        return parse_exact(self.measure_rates) + parse_exact(self.report)

    def to_dict(self) -> dict[str, Any]:
        """Return the request as JSON values; amounts as exact text, so that equal requests are equal."""
        said: dict[str, Any] = {
            "table": self.table,
            "budget": self.budget.to_dict(),
            "rows": self.rows,
            "engine": self.engine,
            "quality": self.quality,
            "columns": None if self.columns is None else list(self.columns),
            "targets": list(self.targets),
            "constraints": self.constraints,
            "references": dict(sorted(self.references.items())),
            "rates": {name: str(parse_exact(rate)) for name, rate in sorted(self.rates.items())},
            "measure_rates": str(parse_exact(self.measure_rates)),
            "report": str(parse_exact(self.report)),
            "seed": self.seed,
        }
        if self.engine == "chain":
            said["chain"] = self.chain.to_dict()
            said["weights"] = {name: str(parse_exact(weight)) for name, weight in sorted(self.weights.items())}
        return said

    def canonical(self) -> str:
        """Return the canonical form of the request, to which keys are bound and which releases show."""
        return json.dumps(self.to_dict(), sort_keys=True, ensure_ascii=False)


def parse_spec(plain: Mapping[str, Any]) -> SynthSpec:
    """Parse a request, as from ``SynthSpec.to_dict`` or a TOML file.

    Raises:
        RequestError: An unknown word (with a suggestion), or a value that is out of range.
    """
    require_known(plain)
    if "table" not in plain or "budget" not in plain:
        raise RequestError(
            "A synthesis needs a table and a budget.", fix='table = "visits"\nbudget = { epsilon = "1" }'
        )
    values = {name: value for name, value in plain.items() if value is not None}
    values["budget"] = _parse_budget(plain["budget"])
    try:
        if isinstance(values.get("chain"), Mapping):
            values["chain"] = parse_chain_spec(values["chain"])
        return SynthSpec(**values)
    except (TypeError, AttributeError):
        raise RequestError("A value in the spec has the wrong type.", fix="see docs/reference/synth.md") from None


def require_known(plain: Mapping[str, Any]) -> None:
    """Refuse an unknown word, also in the budget, before anything missing is reported.

    Raises:
        RequestError: The message names the word and a suggestion.
    """
    _check_keys("A synthesis", plain, [each.name for each in fields(SynthSpec)])
    if isinstance(plain.get("budget"), Mapping):
        _check_keys("A budget", plain["budget"], [each.name for each in fields(Budget)])


def _check_keys(whole: str, words: Mapping[str, Any], known: list[str]) -> None:
    from difflib import get_close_matches

    for name in words:
        if name not in known:
            near = get_close_matches(str(name), known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise RequestError(f"{whole} has no {str(name)[:40]!r}.{hint}", fix=f"use one of {', '.join(known)}")


def read_spec(file: Path) -> SynthSpec:
    """Read the request in a TOML file.

    Raises:
        RequestError: The file cannot be read, or is not a valid request.
    """
    return parse_spec(read_plain(file))


def read_plain(file: Path) -> dict[str, Any]:
    """Read a TOML file without interpreting it; numbers become decimals.

    Raises:
        RequestError: The file cannot be read.
    """
    try:
        return load_toml(read_bounded(file, MAX_TOML_BYTES), parse_float=Decimal)
    except (OSError, UnicodeDecodeError):
        why = "it is not a readable file in UTF-8"
    except (ValueError, InvalidOperation) as failed:
        why = str(failed)
    raise RequestError(f"Cannot read {file} as TOML: {why}.", fix="see docs/reference/synth.md") from None


def _parse_budget(given: object) -> Budget:
    if isinstance(given, Budget):
        return given
    if isinstance(given, Mapping):
        return Budget(**given)
    raise RequestError(
        "A budget must be a table with epsilon (and optionally delta) or rho.",
        fix=UseOption("budget", {"epsilon": "1"}),
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
