"""What a product team declares: services, their attributes, what each is for, and one epsilon per user."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal

from siloquent.errors import SchemaError, UnknownName
from siloquent.schema import Attribute
from siloquent.schema.build import parse_attribute
from siloquent.schema.toml import read_toml

Use = Literal["filter", "measure", "both"]
Client = Literal["separate", "coordinated"]
Scope = Literal["pairs", "full"]

KINDS = ("integer", "real", "category", "boolean", "date")
MOST_EPSILON = 20
MOST_ROWS = 1_000
MOST_BINS = 10_000
MOST_SERVICES = 8
FILTER_BINS, MEASURE_BINS = 25, 125
POINTS = 3
"""To which a measure is rounded: two ends and the middle. More points are more nodes, and each node is noisy."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class Role:
    """An attribute and what it is for.

    Attributes:
        use: Conditions and groups ("filter"), sums and averages ("measure"), or both.
        resolution: The finest number of bins that matters: fewer give smaller errors, and answers know nothing finer.
            Of what is a measure alone: to how many points a value is rounded, at random and right on average.
        sensitive: False sends the value in clear beside the report.
        alone: Values that have a bin of their own, since values crowd there: at ends to which others are clamped, say.
    """

    attribute: Attribute
    use: Use = "filter"
    resolution: int | None = None
    sensitive: bool = True
    alone: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        name, kind = self.attribute.name, self.attribute.kind
        if not _NAME.fullmatch(name):
            raise SchemaError(f"An attribute of a service is named with letters, digits and '_', not {name[:20]!r}.")
        if kind not in KINDS:
            raise SchemaError(f"{name!r} is of type {kind}; devices report {', '.join(KINDS)}.")
        if self.use not in ("filter", "measure", "both"):
            raise SchemaError(f"{name!r} is used as filter, measure or both, not {self.use!r}.")
        if self.use != "filter" and not self.attribute.is_numeric:
            raise SchemaError(f"{name!r} is of type {kind}, which has no sum.", fix='use = "filter"')
        if self.resolution is not None and not 1 <= self.resolution <= MOST_BINS:
            raise SchemaError(f"The resolution of {name!r} is 1 to {MOST_BINS:,}, not {self.resolution!r}.")
        if self.attribute.size > 10**6:
            raise SchemaError(f"{name!r} has more than 10^6 values.", fix="declare a coarser grid")
        if not self.sensitive and self.use != "filter":
            raise SchemaError(f"{name!r} is public: it serves conditions and groups.", fix='use = "filter"')
        self._check_alone()

    def _check_alone(self) -> None:
        if not self.alone:
            return
        name = self.attribute.name
        if not self.is_ordered or self.points or not self.sensitive:
            raise SchemaError(f"{name!r} has no bins of neighbouring values, so none is alone.", fix="leave alone out")
        places = self.places_alone
        if len(places) < len(self.alone) + self._has_null_cell or not all(map(self._is_a_value, self.alone)):
            raise SchemaError(f"What stands alone in {name!r} is among its values, each named once.")
        runs = sum(high - low > 1 for low, high in pairwise((-1, *places, self.attribute.size)))
        if self.bins < len(places) + runs:
            raise SchemaError(
                f"{name!r} has {self.bins} bins: too few for {len(places)} values alone and those between.",
                fix=f"resolution = {max(len(places) + runs, 25)}",
            )

    @property
    def places_alone(self) -> tuple[int, ...]:
        """The places that have a bin of their own, ascending: those declared, and that of NULL."""
        places = {self.attribute.index(value) for value in self.alone}
        return tuple(sorted(places | ({self.attribute.size - 1} if self._has_null_cell else set())))

    @property
    def _has_null_cell(self) -> bool:
        return self.is_ordered and self.attribute.null == "cell"

    def _is_a_value(self, value: object) -> bool:
        at = self.attribute.index(value)
        if not 0 <= at < self.attribute.steps:
            return False
        found = self.attribute.label(at)
        return bool(found == value or (self.attribute.is_numeric and float(found) == float(value)))  # type: ignore[arg-type]

    @property
    def is_ordered(self) -> bool:
        """Whether neighbours belong together, so that ranges make sense."""
        return self.attribute.is_numeric or self.attribute.is_temporal

    @property
    def bins(self) -> int:
        """The resolution, or what suits the use: every category, 25 bins of a filter, 125 of a measure."""
        size = self.attribute.size
        if self.points:
            return self.points
        if self.resolution is not None:
            return min(self.resolution, size)
        if not self.is_ordered:
            return size
        return min(size, FILTER_BINS if self.use == "filter" else MEASURE_BINS)

    @property
    def points(self) -> int:
        """To how many points values are rounded at random before they are reported; 0: they fall into bins instead.

        Rounding keeps sums right on average however values crowd, which bins do not. It needs a number for each cell.
        """
        wanted = self.resolution or POINTS
        is_number = self.use == "measure" and self.attribute.null != "cell"
        return max(wanted, 2) if is_number and self.attribute.size > max(wanted, 2) else 0

    @property
    def may_be_missing(self) -> bool:
        """Whether some value of a row is dropped, and the row with it."""
        attribute = self.attribute
        dropped = attribute.null == "drop" or (attribute.kind == "category" and attribute.other == "drop")
        return dropped or (self.is_ordered and attribute.outside == "drop")


@dataclass(frozen=True, slots=True)
class Service:
    """One service's rows.

    Attributes:
        per_user: The most rows of a user that count; 1: the user is the key.
        everyone: Every user has exactly one row here. Otherwise users without a row report as others do, and the
            report says, under the same protection, that there is none.
    """

    name: str
    roles: tuple[Role, ...]
    per_user: int = 1
    everyone: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SchemaError(f"A service is named with letters, digits and '_', not {self.name[:20]!r}.")
        if not self.roles:
            raise SchemaError(f"Service {self.name!r} has no attribute.")
        names = [role.attribute.name.casefold() for role in self.roles]
        if len(set(names)) != len(names):
            raise SchemaError(f"Service {self.name!r} declares an attribute twice.")
        if not 1 <= self.per_user <= MOST_ROWS:
            raise SchemaError(f"per_user of {self.name!r} is 1 to {MOST_ROWS:,}, not {self.per_user!r}.")
        if self.everyone:
            self._check_everyone()
        elif any(not role.sensitive for role in self.roles):
            raise SchemaError(
                f"Service {self.name!r} has a public attribute: whether a user has a row would show.",
                fix="everyone = true, if every user has exactly one row",
            )
        if all(not role.sensitive for role in self.roles):
            raise SchemaError(f"Service {self.name!r} has no sensitive attribute: it needs no perturbation.")

    def _check_everyone(self) -> None:
        if self.per_user != 1:
            raise SchemaError(f"In {self.name!r} every user has one row, so per_user is 1.", fix="per_user = 1")
        for role in self.roles:
            if role.may_be_missing:
                raise SchemaError(
                    f"In {self.name!r} every user has a row, but rows with some values of {role.attribute.name!r} are "
                    "dropped.",
                    fix='outside = "clamp", other = "cell", null = "cell" or { value = .. }',
                )

    @property
    def padded(self) -> bool:
        """Whether a report may say that there is no row."""
        return not self.everyone

    def role(self, name: str) -> Role:
        """The role of the attribute ``name``, whatever its case.

        Raises:
            UnknownName: The service has none.
        """
        for role in self.roles:
            if role.attribute.name.casefold() == name.casefold():
                return role
        raise UnknownName(f"attribute in {self.name}", name[:64], [role.attribute.name for role in self.roles])


@dataclass(frozen=True, slots=True)
class CollectionSpec:
    """A collection: services, and what one user's reports to all of them together may cost.

    Attributes:
        epsilon: Of everything that one user sends in one epoch, as text, Fraction or whole number.
        epoch: Raised by the owner: new reports, and a new epsilon of every user.
        client: "separate": each service reports alone, with its share; "coordinated": one program sees all services of
            a user and sends one report on the joined row, with the whole epsilon.
        scope: "pairs": exact estimates for two attributes of a service (and a measure), modelled ones beyond; "full":
            exact for all attributes at once, for few users too noisy.
        min_reports: Below this many reports nothing is estimated.
    """

    name: str
    services: tuple[Service, ...]
    epsilon: Fraction
    epoch: int = 1
    fanout: int = 5
    client: Client = "separate"
    scope: Scope = "pairs"
    min_reports: int = 1_000

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SchemaError(f"A collection is named with letters, digits and '_', not {self.name[:20]!r}.")
        object.__setattr__(self, "epsilon", _epsilon(self.epsilon))
        if not 1 <= len(self.services) <= MOST_SERVICES:
            raise SchemaError(f"A collection has 1 to {MOST_SERVICES} services, not {len(self.services)}.")
        names = [service.name.casefold() for service in self.services]
        if len(set(names)) != len(names):
            raise SchemaError("Two services have one name.")
        if not 1 <= self.epoch < 2**31 or not 2 <= self.fanout <= 64 or self.min_reports < 2:
            raise SchemaError("epoch is at least 1, fanout 2 to 64, min_reports at least 2.")
        if self.client not in ("separate", "coordinated"):
            raise SchemaError(f"client is separate or coordinated, not {self.client!r}.")
        if self.scope not in ("pairs", "full"):
            raise SchemaError(f"scope is pairs or full, not {self.scope!r}.")
        if self.client == "coordinated" and sum(service.per_user > 1 for service in self.services) > 1:
            raise SchemaError(
                "A coordinated client joins the rows of at most one service with several rows a user.",
                fix='client = "separate"',
            )
        self._check_joined_in_clear()

    def _check_joined_in_clear(self) -> None:
        """Refuse public values beside a joined row that may be missing: their absence would show that it is."""
        public = [role for service in self.services for role in service.roles if not role.sensitive]
        padded = [service for service in self.services if service.padded]
        if self.client == "coordinated" and public and padded:
            raise SchemaError(
                f"{public[0].attribute.name!r} is public, and a coordinated client reports it from the joined row: "
                f"whether a user has a row in {padded[0].name!r} would show.",
                fix='client = "separate", or leave sensitive = false out',
            )

    def service(self, name: str) -> Service:
        """The service ``name``, whatever its case.

        Raises:
            UnknownName: There is none.
        """
        for service in self.services:
            if service.name.casefold() == name.casefold():
                return service
        raise UnknownName("service", name[:64], [service.name for service in self.services])


def _epsilon(given: object) -> Fraction:
    try:
        if isinstance(given, float):
            given = repr(given)
        value: Fraction = Fraction(given)  # type: ignore[call-overload]
    except (ValueError, TypeError, ZeroDivisionError, OverflowError):
        raise SchemaError(f"epsilon is a number, not {str(given)[:40]!r}.", fix='epsilon = "2"') from None
    if not 0 < value <= MOST_EPSILON or value.denominator > 10**9:
        raise SchemaError(f"epsilon is above 0, at most {MOST_EPSILON}, with at most 9 decimals.", fix='epsilon = "2"')
    return value


_SPEC_KEYS = {"format", "name", "epoch", "epsilon", "fanout", "client", "scope", "min_reports", "service"}
_SERVICE_KEYS = {"name", "per_user", "everyone", "attribute"}
_ROLE_KEYS = {"use", "resolution", "sensitive", "alone"}


def parse_spec(text: str) -> CollectionSpec:
    """The collection that the TOML ``text`` declares.

    Raises:
        SchemaError: It is not TOML, has unknown keys, lacks something or contradicts itself.
    """
    raw = read_toml(text)
    _check_keys("a collection", raw, _SPEC_KEYS)
    if raw.get("format") != 1:
        raise SchemaError("A collection's file begins with its format.", fix="format = 1")
    for key in ("name", "epsilon", "service"):
        if key not in raw:
            raise SchemaError(f"A collection needs {key!r}.", fix=f"{key} = ..")
    try:
        services = tuple(_service(entry) for entry in raw["service"])
        return CollectionSpec(
            services=services, **{key: value for key, value in raw.items() if key not in ("format", "service")}
        )
    except KeyError as missing:
        raise SchemaError(f"A service needs {missing.args[0]!r}.", fix=f"{missing.args[0]} = ..") from None
    except (TypeError, AttributeError):
        raise SchemaError("A collection has a name, an epsilon and [[service]] tables.", fix=_EXAMPLE) from None


_EXAMPLE = "see docs/reference/collect.md"


def _service(entry: Mapping[str, Any]) -> Service:
    _check_keys("a service", entry, _SERVICE_KEYS)
    roles = []
    for raw in entry["attribute"]:
        own = {key: raw[key] for key in _ROLE_KEYS if key in raw}
        if isinstance(own.get("resolution"), Decimal):
            raise SchemaError("A resolution is a whole number.")
        if not isinstance(own.get("alone", []), list):
            raise SchemaError("Values that stand alone are a list.", fix="alone = [0, 99]")
        own["alone"] = tuple(own.get("alone", ()))
        roles.append(Role(parse_attribute({k: v for k, v in raw.items() if k not in _ROLE_KEYS}), **own))
    return Service(entry["name"], tuple(roles), entry.get("per_user", 1), entry.get("everyone", False))


def _check_keys(what: str, raw: Mapping[str, Any], known: set[str]) -> None:
    for key in raw:
        if key not in known:
            raise UnknownName(f"key of {what}", str(key)[:64], known)
