"""The specifications of offers and requests: frozen values that check themselves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from siloquent.errors import RequestError
from siloquent.fixes import UseOption, build_fix, join_choices, run, use_budget
from siloquent.foreign.spec_types import check_types
from siloquent.privacy import parse_exact
from siloquent.privacy.budget import Budget, Exact

Mechanism = Literal["joint", "fpm", "fpm-opt"]
SecondMoments = Literal["total", "per-key", "none"]
Kind = Literal["join", "union"]
Range = Literal["declared", "quantiles"]
Model = Literal["linear", "logistic", "poisson"]
MAX_FEATURES = 500
MAX_KEYS = 8
MAX_CELLS = 10**6
FOR_JOINS = ("0.4", "0.6", "0")
FOR_UNIONS = ("0.02", "0.18", "0.8")
FOR_CURVES = {3: ("0.02", "0.1", "0.58", "0.3"), 4: ("0.02", "0.08", "0.3", "0.2", "0.4")}
FOR_REQUESTS = ("0.25", "0.6", "0.15")


@dataclass(frozen=True, slots=True)
class OfferAccuracy:
    """The accuracy of the mean of a key with ``rows_per_key`` rows: a standard error of ``mean_error`` ranges."""

    mean_error: float
    rows_per_key: int

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        if not (isinstance(self.mean_error, int | float) and 0 < self.mean_error < 1):
            raise RequestError(f"mean_error must be a share of the range between 0 and 1, not {self.mean_error!r}.")
        if not isinstance(self.rows_per_key, int) or self.rows_per_key < 1:
            raise RequestError(f"rows_per_key must be a whole number of at least 1, not {self.rows_per_key!r}.")


@dataclass(frozen=True, slots=True)
class KeyOf:
    """A join key: one declared attribute, or several together (composite).

    ``parent``: for a single category key, the number of initial characters that name a coarser key (a school's
    district), towards whose mean a key with few rows is shrunk.
    """

    attributes: tuple[str, ...]
    parent: int | None = None

    def __init__(self, *attributes: str, parent: int | None = None) -> None:
        object.__setattr__(self, "attributes", tuple(attributes))
        object.__setattr__(self, "parent", parent)
        check_types(self, RequestError)
        if not attributes or len(set(attributes)) != len(attributes):
            raise RequestError(
                "A key takes one or more distinct attributes.",
                fix=UseOption("keys", ["district"], 'KeyOf("district")'),
            )
        if parent is not None and (len(attributes) != 1 or not isinstance(parent, int) or parent < 1):
            raise RequestError(
                "parent must be a prefix length, and the key must have one attribute.", fix=UseOption("parent", 2)
            )

    @property
    def name(self) -> str:
        """The attributes joined by ``+``."""
        return "+".join(self.attributes)


@dataclass(frozen=True, slots=True)
class OfferSpec:
    """A release of noisy sums by which others find and join a table.

    Args:
        table: A declared table.
        features: Numbers, booleans and categories (one number per value) with declared domains.
        keys: The keys for joins; empty: the offer is only for unions.
        budget, accuracy: Exactly one.
        second_moments: "total" for unions and requests, "per-key" for many-to-many joins; joins of means need none.
        shares: Of the price, for counts, sums and second moments, and one per higher order; None: chosen for the
            offer.
        mechanism: "joint", or the paper's "fpm" and "fpm-opt" for comparison.
        norm_cut: Longer records are shortened to this (1: half a declared range); None: not at all, at more noise.
        indicators: Features whose missing values get a separate feature; else NULL counts as the range's centre.
        range: "quantiles": the ends of each number's range are estimated first, for a tenth of the price.
        owner: The owner responsible for the rows: offers of one owner may be about the same people.
        order: 3 or 4 also releases products of that many numbers, for logistic and Poisson models of unions.
    """

    table: str
    features: tuple[str, ...]
    keys: tuple[KeyOf, ...] = ()
    budget: Budget | None = None
    accuracy: OfferAccuracy | None = None
    second_moments: SecondMoments = "none"
    shares: tuple[Exact, ...] | None = None
    mechanism: Mechanism = "joint"
    norm_cut: float | None = None
    indicators: tuple[str, ...] = ()
    range: Range = "declared"
    owner: str = ""
    order: int = 2

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        if not 1 <= len(self.features) <= MAX_FEATURES or len(set(self.features)) != len(self.features):
            raise RequestError(f"An offer takes 1 to {MAX_FEATURES} distinct features.")
        if len(self.keys) > MAX_KEYS or len({key.name for key in self.keys}) != len(self.keys):
            raise RequestError(f"An offer takes at most {MAX_KEYS} distinct keys.")
        if (self.budget is None) == (self.accuracy is None):
            raise RequestError("An offer takes either a budget or an accuracy.", fix=use_budget("epsilon", "1"))
        both = {name for key in self.keys for name in key.attributes} & set(self.features)
        if both:
            raise RequestError(f"{sorted(both)[0]!r} is both a key and a feature; it can only be one of them.")
        if not set(self.indicators) <= set(self.features):
            raise RequestError("Indicators must name features of the offer.", fix="name only features as indicators")
        self._check_words()

    def _check_words(self) -> None:
        for name, allowed in (
            ("second_moments", ("total", "per-key", "none")),
            ("mechanism", ("joint", "fpm", "fpm-opt")),
            ("range", ("declared", "quantiles")),
        ):
            if getattr(self, name) not in allowed:
                raise RequestError(f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}.")
        if not self.keys and self.second_moments == "none":
            object.__setattr__(self, "second_moments", "total")
        if self.second_moments == "per-key" and len(self.keys) != 1:
            raise RequestError("Second moments per key need exactly one key.", fix=UseOption("second_moments", "total"))
        if self.norm_cut is not None and not 0 < self.norm_cut < 1_000:
            raise RequestError(f"norm_cut must be above 0, not {self.norm_cut!r}.")
        if self.order not in (2, 3, 4) or (self.order > 2 and (self.keys or self.mechanism != "joint")):
            raise RequestError(
                f"The order is 2, or 3 or 4 of a joint offer for unions, without keys; not {self.order!r}.",
                fix=join_choices([UseOption("order", 2), "an offer of its own for unions"]),
            )
        self._check_shares()

    def _check_shares(self) -> None:
        shares = self.parts
        if len(shares) != self.order + 1 or min(shares) < 0 or 0 in (shares[1], *shares[3:]):
            raise RequestError(
                f"Shares are {self.order + 1} numbers, for counts, sums, second moments and each higher order: none is "
                "below 0, and only those of counts and second moments can be 0.",
                fix=UseOption("shares", ("0.4", "0.6", "0")),
            )
        if (shares[2] == 0) != (self.second_moments == "none"):
            raise RequestError(
                "The share of second moments must be 0 if none are released, and positive otherwise.",
                fix=UseOption("shares", ("0.4", "0.6", "0")),
            )
        if self.keys and shares[0] == 0:
            raise RequestError(
                "With keys, counts need a share of the price.", fix=UseOption("shares", ("0.4", "0.6", "0"))
            )

    @property
    def parts(self) -> tuple[Fraction, ...]:
        """The shares, exactly; they need not add up to 1."""
        default: tuple[str, ...] = FOR_JOINS if self.second_moments == "none" else FOR_REQUESTS
        if not self.keys:
            default = FOR_CURVES.get(self.order, FOR_UNIONS)
        return tuple(parse_exact(share) for share in self.shares or default)

    def canonical(self) -> str:
        """Return the spec as canonical JSON: equal specs have equal texts."""
        plain: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("table", "features", "second_moments", "mechanism", "norm_cut", "indicators", "range", "owner")
        }
        plain["keys"] = [{"attributes": key.attributes, "parent": key.parent} for key in self.keys]
        plain["budget"] = self.budget and self.budget.to_dict()
        accuracy = self.accuracy
        plain["accuracy"] = accuracy and {"mean_error": accuracy.mean_error, "rows_per_key": accuracy.rows_per_key}
        plain["shares"] = [str(share) for share in self.parts]
        if self.order > 2:  # offers of order 2 keep the text form of earlier ledgers
            plain["order"] = self.order
        return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """A request for offers that improve the prediction of ``target`` from ``features``.

    Args:
        table: The requester's own training table.
        keys: The keys by which offers may be joined.
        scoring: "local" reads the own rows exactly, is free and only for the table's owner; "platform" releases the
            table's moments for ``budget`` and reads only releases.
        kinds: Joins add features, unions add rows.
        test_share: The share of own rows held out to measure the gain (local scoring).
        max_augmentations, min_gain: Stop after that many, or when the next one gains less R2.
        range: As in ``OfferSpec``, for platform scoring.
        model: "linear", or "logistic" (a target of two values) and "poisson" with a stated error.
    """

    table: str
    target: str
    features: tuple[str, ...] = ()
    keys: tuple[KeyOf, ...] = ()
    scoring: Literal["local", "platform"] = "local"
    budget: Budget | None = None
    kinds: tuple[Kind, ...] = ("join",)
    test_share: float = 0.25
    max_augmentations: int = 1
    min_gain: float = 0.005
    model: Model = "linear"
    range: Range = "declared"
    order: int = 2

    def __post_init__(self) -> None:
        check_types(self, RequestError, keys=str)
        keys = tuple(KeyOf(key) if isinstance(key, str) else key for key in self.keys)
        object.__setattr__(self, "keys", keys)
        if len({*self.features, self.target}) != len(self.features) + 1:
            raise RequestError("Features and target of a request must be distinct attributes.")
        self._check_words()
        if self.order not in (2, 3, 4) or (self.order > 2 and (self.model == "linear" or self.kinds != ("union",))):
            raise RequestError(
                "An order of 3 or 4 is for logistic and Poisson models of unions; everything else has order 2.",
                fix=build_fix(
                    UseOption("kinds", ["union"]), ", ", UseOption("model", "logistic"), ", ", UseOption("order", 4)
                ),
            )
        if self.range == "quantiles" and "union" in self.kinds:
            raise RequestError(
                "Rows are added over declared ranges; estimated ones differ.", fix=UseOption("range", "declared")
            )
        if self.scoring == "platform" and self.budget is None:
            raise RequestError(
                "Platform scoring releases the table's moments, which needs a budget.",
                fix=build_fix(
                    use_budget("epsilon", "1"), ", or ", UseOption("scoring", "local"), ", which costs nothing"
                ),
            )
        if self.scoring == "local" and self.budget is not None:
            raise RequestError("Local scoring is free, so it takes no budget.", fix=UseOption("scoring", "platform"))
        if "join" in self.kinds and not self.keys:
            raise RequestError(
                "Joins need a key.",
                fix=join_choices([UseOption("keys", ("district",)), UseOption("kinds", ("union",))]),
            )
        if not 0 <= self.test_share < 1 or not 0 <= self.min_gain < 1:
            raise RequestError("test_share and min_gain must be at least 0 and below 1.")
        if not isinstance(self.max_augmentations, int) or not 1 <= self.max_augmentations <= 50:
            raise RequestError(f"max_augmentations must be between 1 and 50, not {self.max_augmentations!r}.")

    def _check_words(self) -> None:
        if self.scoring not in ("local", "platform"):
            raise RequestError(f"scoring must be local or platform, not {self.scoring!r}.")
        if not self.kinds or not set(self.kinds) <= {"join", "union"}:
            raise RequestError(f"kinds must be join or union, not {', '.join(map(repr, self.kinds)) or 'nothing'}.")
        if self.model not in ("linear", "logistic", "poisson"):
            raise RequestError(f"model must be linear, logistic or poisson, not {self.model!r}.")

    def build_offer_spec(self) -> OfferSpec:
        """Build the spec of the own table's release for platform scoring: features, then the target."""
        return OfferSpec(
            table=self.table,
            features=(*self.features, self.target),
            keys=() if self.order > 2 else self.keys,
            budget=self.budget,
            second_moments="total",
            range=self.range,
            order=self.order,
        )


def parse_spec(plain: dict[str, Any]) -> OfferSpec:
    """Parse the offer in a TOML file or JSON document.

    Raises:
        RequestError: An unknown key, or an invalid value.
    """
    values = _select_known(plain, OfferSpec, "An offer")
    try:
        values["keys"] = tuple(_parse_key_spec(key) for key in values.get("keys", ()))
        if "accuracy" in values and values["accuracy"] is not None:
            values["accuracy"] = OfferAccuracy(**values["accuracy"])
        return OfferSpec(**_parse_amounts(values))
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise RequestError(f"The offer's spec is invalid: {wrong}.", fix=run("search offer", "--help")) from None


def parse_request(plain: dict[str, Any]) -> RequestSpec:
    """Parse the request in a TOML file or JSON document.

    Raises:
        RequestError: An unknown key, or an invalid value.
    """
    values = _select_known(plain, RequestSpec, "A request")
    try:
        values["keys"] = tuple(_parse_key_spec(key) for key in values.get("keys", ()))
        return RequestSpec(**_parse_amounts(values))
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise RequestError(f"The request is invalid: {wrong}.", fix=run("search find", "--help")) from None


def _select_known(plain: dict[str, Any], kind: type[OfferSpec | RequestSpec], what: str) -> dict[str, Any]:
    known = sorted(kind.__dataclass_fields__)
    unknown = sorted(set(plain) - set(known))
    if unknown:
        raise RequestError(f"{what} has no {unknown[0]!r}. Known: {', '.join(known)}.")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}


def _parse_amounts(values: dict[str, Any]) -> dict[str, Any]:
    if values.get("budget") is not None:
        values["budget"] = Budget(**values["budget"])
    return values


def _parse_key_spec(plain: Any) -> KeyOf:
    if isinstance(plain, str):
        return KeyOf(plain)
    if isinstance(plain, list):
        return KeyOf(*plain)
    return KeyOf(*plain["attributes"], parent=plain.get("parent"))
