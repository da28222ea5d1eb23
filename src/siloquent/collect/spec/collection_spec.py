"""The declaration of a collection: services, their attributes, the use of each, and one epsilon per user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

from siloquent.collect.spec.dimension import Dimension
from siloquent.collect.spec.role import NAME, AttributeRole
from siloquent.errors import SchemaError, UnknownName
from siloquent.fixes import UseOption, join_choices
from siloquent.foreign.numbers import is_plain_number
from siloquent.foreign.spec_types import check_types
from siloquent.schema.build import parse_attribute
from siloquent.schema.files.toml import read_toml

Client = Literal["separate", "coordinated"]
Scope = Literal["pairs", "full"]

MAX_EPSILON = 20
MAX_ROWS = 1_000
MAX_SERVICES = 8


@dataclass(frozen=True, slots=True)
class Service:
    """One service's rows.

    Attributes:
        per_user: The most rows of a user that count; 1: the user is the key.
        everyone: Every user has exactly one row here. Otherwise users without a row report as others do, and the report
            says, under the same protection, that there is none.
    """

    name: str
    roles: tuple[AttributeRole, ...]
    per_user: int = 1
    everyone: bool = False

    def __post_init__(self) -> None:
        check_types(self, SchemaError)
        if not NAME.fullmatch(self.name):
            raise SchemaError(f"A service's name may contain only letters, digits and '_', not {self.name[:20]!r}.")
        if not self.roles:
            raise SchemaError(f"Service {self.name!r} has no attribute.")
        names = [role.attribute.name.casefold() for role in self.roles]
        if len(set(names)) != len(names):
            raise SchemaError(f"Service {self.name!r} declares an attribute twice.")
        if not 1 <= self.per_user <= MAX_ROWS:
            raise SchemaError(f"per_user of {self.name!r} must be between 1 and {MAX_ROWS:,}, not {self.per_user!r}.")
        if self.everyone:
            self._check_everyone()
        elif any(not role.sensitive for role in self.roles):
            raise SchemaError(
                f"Service {self.name!r} has a public attribute: it would reveal whether a user has a row.",
                fix="everyone = true, if every user has exactly one row",
            )
        if all(not role.sensitive for role in self.roles):
            raise SchemaError(f"Service {self.name!r} has no sensitive attribute: it needs no perturbation.")

    def _check_everyone(self) -> None:
        if self.per_user != 1:
            raise SchemaError(
                f"In {self.name!r} every user has one row, so per_user is 1.", fix=UseOption("per_user", 1)
            )
        for role in self.roles:
            if role.may_be_missing:
                raise SchemaError(
                    f"In {self.name!r} every user has a row, but rows with some values of {role.attribute.name!r} are "
                    "dropped.",
                    fix='outside = "clamp", other = "cell", null = "cell" or { value = ... }',
                )

    @property
    def padded(self) -> bool:
        """Whether a report may say that there is no row."""
        return not self.everyone

    def get_role(self, name: str) -> AttributeRole:
        """Return the role of the attribute ``name``, ignoring case.

        Raises:
            UnknownName: the service has no such attribute.
        """
        for role in self.roles:
            if role.attribute.name.casefold() == name.casefold():
                return role
        raise UnknownName(f"attribute in {self.name}", name[:64], [role.attribute.name for role in self.roles])


@dataclass(frozen=True, slots=True)
class CollectionSpec:
    """A collection: services, and the epsilon of one user's reports to all of them together.

    Attributes:
        epsilon: Of everything that one user sends in one epoch, as text, Fraction or whole number.
        epoch: Raised by the owner: new reports, and a new epsilon of every user.
        client: "separate": each service reports separately, with its share; "coordinated": one program sees all
            services of a user and sends one report on the joined row, with the whole epsilon.
        scope: "pairs": exact estimates for two attributes of a service (and a measure), modelled ones beyond; "full":
            exact for all attributes at once, for few users too noisy.
        min_reports: The number of reports below which nothing is estimated.
        dimensions: Public tables whose values devices add to their rows.
    """

    name: str
    services: tuple[Service, ...]
    epsilon: Fraction
    epoch: int = 1
    fanout: int = 5
    client: Client = "separate"
    scope: Scope = "pairs"
    min_reports: int = 1_000
    dimensions: tuple[Dimension, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _parse_epsilon(self.epsilon))
        check_types(self, SchemaError)
        if not NAME.fullmatch(self.name):
            raise SchemaError(f"A collection's name may contain only letters, digits and '_', not {self.name[:20]!r}.")
        if not 1 <= len(self.services) <= MAX_SERVICES:
            raise SchemaError(f"A collection takes 1 to {MAX_SERVICES} services, not {len(self.services)}.")
        names = [service.name.casefold() for service in self.services]
        if len(set(names)) != len(names):
            raise SchemaError("Two services have the same name.")
        self._check_dimensions(names)
        if not 1 <= self.epoch < 2**31 or not 2 <= self.fanout <= 64 or self.min_reports < 2:
            raise SchemaError("epoch must be at least 1, fanout between 2 and 64, and min_reports at least 2.")
        if self.client not in ("separate", "coordinated"):
            raise SchemaError(f"client must be separate or coordinated, not {self.client!r}.")
        if self.scope not in ("pairs", "full"):
            raise SchemaError(f"scope must be pairs or full, not {self.scope!r}.")
        if self.client == "coordinated" and sum(service.per_user > 1 for service in self.services) > 1:
            raise SchemaError(
                "A coordinated client joins the rows of at most one service with several rows a user.",
                fix=UseOption("client", "separate"),
            )
        self._check_joined_in_clear()

    def _check_dimensions(self, services: Sequence[str]) -> None:
        names = [one.name.casefold() for one in self.dimensions]
        if len({*names, *services}) != len(names) + len(services):
            raise SchemaError("A dimension has the same name as another dimension or a service.")
        known = {one.name for one in self.dimensions}
        for role in (role for service in self.services for role in service.roles):
            if role.dimension is not None and role.dimension not in known:
                raise UnknownName("dimension", str(role.dimension)[:64], known, fix="declare it under [[dimension]]")

    def find_dimension(self, name: str) -> Dimension | None:
        """Return the dimension ``name``, ignoring case; None if there is none."""
        return next((one for one in self.dimensions if one.name.casefold() == name.casefold()), None)

    def _check_joined_in_clear(self) -> None:
        """Refuse public values beside a joined row that may be missing: their absence would reveal that it is."""
        public = [role for service in self.services for role in service.roles if not role.sensitive]
        padded = [service for service in self.services if service.padded]
        if self.client == "coordinated" and public and padded:
            raise SchemaError(
                f"{public[0].attribute.name!r} is public, and a coordinated client reports it from the joined row: "
                f"whether a user has a row in {padded[0].name!r} would show.",
                fix=join_choices([UseOption("client", "separate"), "leave sensitive = false out"]),
            )

    def get_service(self, name: str) -> Service:
        """Return the service ``name``, ignoring case.

        Raises:
            UnknownName: there is no such service.
        """
        for service in self.services:
            if service.name.casefold() == name.casefold():
                return service
        known = [service.name for service in self.services]
        raise UnknownName("service", name[:64], known, fix="name one of them")


def _parse_epsilon(given: object) -> Fraction:
    try:
        if isinstance(given, float):
            given = repr(given)
        if isinstance(given, str) and not is_plain_number(given):
            raise ValueError("digits are 0 to 9")
        value: Fraction = Fraction(given)  # type: ignore[call-overload]
    except (ValueError, TypeError, ZeroDivisionError, OverflowError):
        raise SchemaError(
            f"epsilon must be a number, not {str(given)[:40]!r}.", fix=UseOption("epsilon", "2")
        ) from None
    if not 0 < value <= MAX_EPSILON or value.denominator > 10**9:
        raise SchemaError(
            f"epsilon must be above 0 and at most {MAX_EPSILON}, with at most 9 decimals.",
            fix=UseOption("epsilon", "2"),
        )
    return value


_SPEC_KEYS = {"format", "name", "epoch", "epsilon", "fanout", "client", "scope", "min_reports", "service", "dimension"}
_SERVICE_KEYS = {"name", "per_user", "everyone", "attribute"}
_ROLE_KEYS = {"use", "resolution", "sensitive", "alone", "dimension"}
_DIMENSION_KEYS = {"name", "key", "public"}


def parse_spec(text: str) -> CollectionSpec:
    """Return the collection declared by the TOML ``text``.

    Raises:
        SchemaError: it is not TOML, has unknown keys, lacks something or contradicts itself.
    """
    raw = read_toml(text)
    _check_keys("a collection", raw, _SPEC_KEYS)
    if raw.get("format") != 1:
        raise SchemaError("A collection's file must begin with its format.", fix=UseOption("format", 1))
    for key in ("name", "epsilon", "service"):
        if key not in raw:
            raise SchemaError(f"A collection needs {key!r}.", fix=f"{key} = ...")
    try:
        services = tuple(_parse_service(entry) for entry in raw["service"])
        dimensions = tuple(_parse_dimension(entry) for entry in raw.get("dimension", ()))
        plain = {key: value for key, value in raw.items() if key not in ("format", "service", "dimension")}
        return CollectionSpec(services=services, dimensions=dimensions, **plain)
    except KeyError as missing:
        raise SchemaError(f"A service needs {missing.args[0]!r}.", fix=f"{missing.args[0]} = ...") from None
    except (TypeError, AttributeError):
        raise SchemaError("A collection takes a name, an epsilon and [[service]] tables.", fix=_EXAMPLE) from None


_EXAMPLE = "see docs/reference/collect.md"


def _parse_dimension(entry: Mapping[str, Any]) -> Dimension:
    _check_keys("a dimension", entry, _DIMENSION_KEYS)
    return Dimension(entry.get("name", ""), entry.get("key", ""), entry.get("public", False))


def _parse_service(entry: Mapping[str, Any]) -> Service:
    _check_keys("a service", entry, _SERVICE_KEYS)
    roles = []
    for raw in entry["attribute"]:
        own = {key: raw[key] for key in _ROLE_KEYS if key in raw}
        if isinstance(own.get("resolution"), Decimal):
            raise SchemaError("A resolution must be a whole number.")
        if not isinstance(own.get("alone", []), list):
            raise SchemaError("Values that stand alone are a list.", fix=UseOption("alone", [0, 99]))
        own["alone"] = tuple(own.get("alone", ()))
        roles.append(AttributeRole(parse_attribute({k: v for k, v in raw.items() if k not in _ROLE_KEYS}), **own))
    return Service(entry["name"], tuple(roles), entry.get("per_user", 1), entry.get("everyone", False))


def _check_keys(what: str, raw: Mapping[str, Any], known: set[str]) -> None:
    for key in raw:
        if key not in known:
            raise UnknownName(f"key of {what}", str(key)[:64], known)
