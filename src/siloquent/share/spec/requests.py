"""The specification of a release: frozen values that check themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from siloquent.errors import RequestError
from siloquent.fixes import UseOption, build_fix, join_choices, run
from siloquent.foreign.spec_types import check_types
from siloquent.privacy.budget import Budget

Method = Literal["marginals", "gram", "moments", "tree"]
Trust = Literal["local", "sum"]
METHODS = ("marginals", "gram", "moments", "tree")
MAX_BINS = 32
MAX_FEATURES = 200
MAX_NODES = 10**6


@dataclass(frozen=True, slots=True)
class TreeSpec:
    """The shape of a private tree: ``h`` levels, ``t`` split candidates, counts of leaves and levels 1 to ``p`` - 1.

    ``variant``: "aamas-2019" is the paper's tree, "ours" the same for the same price with less noise.
    ``max_nodes``: a level that would have more nodes splits numbers in two instead of branching on categories.
    """

    h: int = 8
    t: int = 10
    p: int = 4
    max_nodes: int = 60_000
    variant: Literal["ours", "aamas-2019"] = "ours"

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        for name, least, most in (("h", 2, 16), ("t", 1, 1_000), ("p", 2, self.h), ("max_nodes", 2, MAX_NODES)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise RequestError(
                    f"{name} of a tree must be a whole number between {least} and {most:,}, not {value!r}."
                )
        if self.variant not in ("ours", "aamas-2019"):
            raise RequestError(f"variant must be ours or aamas-2019, not {self.variant!r}.")


@dataclass(frozen=True, slots=True)
class ShareSpec:
    """A release for other silos.

    Args:
        table: A declared table.
        label: The attribute to predict: a category or boolean, or a number with a declared range.
        features: The predictors: numbers, categories and booleans with finite domains.
        method: "marginals" (label x attribute tables: rows and a model), "gram" (all pairs of bins: a better model,
            more noise), "moments" (numbers without bins), "tree" (private trees and rows from them).
        trust: "local": full noise at every silo. "sum": one noise in total, through a secure sum.
        agents: The number of participating silos; required for "sum", otherwise only for predicting errors.
        honest: For "sum": the number of noise shares that suffice, so at least that many of the silos in it must
            follow the protocol and keep their noise secret.
        colluding: For "sum": the number of silos that may not. At least 1, since every silo knows its own noise. A
            sum needs at least ``honest + colluding`` silos; with more ``agents`` than that, silos may be lost.
        overlap: The number of silos in which a person may have rows; stated in the guarantee, which then adds up.
        public_seed: The seed of the trees' skeleton. It hides nothing.
    """

    table: str
    label: str
    features: tuple[str, ...]
    budget: Budget
    method: Method = "marginals"
    trust: Trust = "local"
    agents: int | None = None
    honest: int | None = None
    overlap: int = 1
    public_seed: int = 0
    tree: TreeSpec = TreeSpec()
    colluding: int = 1

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        if not 1 <= len(self.features) <= MAX_FEATURES or len({*self.features, self.label}) != len(self.features) + 1:
            raise RequestError(f"A release takes 1 to {MAX_FEATURES} distinct features and a label.")
        for name, allowed in (("method", METHODS), ("trust", ("local", "sum"))):
            if getattr(self, name) not in allowed:
                raise RequestError(f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}.")
        for name, least in (("overlap", 1), ("agents", 2), ("honest", 1), ("public_seed", 0), ("colluding", 1)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
                raise RequestError(f"{name} must be a whole number of at least {least}, not {value!r}.")
        self._check_trust()

    def _check_trust(self) -> None:
        if self.trust == "local":
            if self.honest is not None or self.colluding != 1:
                raise RequestError(
                    "honest and colluding apply only to secure sums.",
                    fix=join_choices([UseOption("trust", "sum"), "leave them out"]),
                )
            return
        if self.method == "tree":
            raise RequestError(
                "Trees of several silos cannot be added up.",
                fix=join_choices([UseOption("method", "gram"), UseOption("trust", "local")]),
            )
        if self.agents is None or self.honest is None:
            raise RequestError("A secure sum needs to know how many silos take part, and how many are honest.",
                               fix=build_fix(UseOption("agents", 5), ", ", UseOption("honest", 4)))  # fmt: skip
        if self.honest + self.colluding > self.agents:
            most = max(self.agents - self.colluding, 0)
            raise RequestError(
                f"honest must be at most {most} of {self.agents} silos, not {self.honest}: {self.colluding} may "
                "reveal their noise to others, and every silo knows its own.",
                fix=UseOption("honest", most) if most else "more silos",
            )


_KEYS = tuple(ShareSpec.__dataclass_fields__)


def parse_spec(plain: dict[str, Any]) -> ShareSpec:
    """Parse the spec in a TOML file or JSON document.

    Raises:
        RequestError: An unknown key, or an invalid value.
    """
    unknown = sorted(set(plain) - set(_KEYS))
    if unknown:
        raise RequestError(f"A release for sharing has no {unknown[0]!r}. Known: {', '.join(sorted(_KEYS))}.")
    try:
        values = {**plain, "features": tuple(plain["features"]), "budget": Budget(**plain["budget"])}
        if "tree" in values:
            values["tree"] = TreeSpec(**values["tree"])
        return ShareSpec(**values)
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise RequestError(f"The spec is invalid: {wrong}.", fix=run("share release", "--help")) from None
