"""The refusals of a plan: columns that have nothing to discover, deltas, and budgets that would find nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

from siloquent.discover.plan.threshold import compute_sure_count, compute_threshold
from siloquent.discover.spec import BoundsSpec, DiscoverSpec, KeysSpec, build_spec, suggest
from siloquent.errors import RequestError
from siloquent.fixes import AskWith, FixLike, build_fix, let_owner_run
from siloquent.privacy import convert_zcdp_to_epsilon, format_digits, parse_exact
from siloquent.privacy.budget import Budget
from siloquent.schema import Attribute, ForeignKey, Key, TableSchema

DEFAULT_PART = 10
"""Without a delta, a discovery takes this part of the account's delta_events."""
_STEP = Fraction(3, 2)


def get_report_delta(schema: TableSchema) -> Fraction:
    """Return the delta at which the account of ``schema`` reports epsilon."""
    return schema.budget.delta - schema.budget.delta_events


def require_keys(spec: KeysSpec, schema: TableSchema, attribute: Attribute) -> None:
    """Refuse a column whose values are somebody's, or are known from its declaration.

    Raises:
        RequestError: it has no keys to discover.
    """
    if attribute.kind == "id" or attribute.name == schema.unit.column:
        raise RequestError(
            f"{attribute.name!r} identifies people or rows: its values are not released, even if many rows share one.",
            fix="discover a column that describes people",
        )
    keys = [one for one in schema.constraints if isinstance(one, (Key, ForeignKey)) and attribute.name in one.columns]
    if keys:
        raise RequestError(
            f"{attribute.name!r} is a key that links or identifies rows, so its values are not released.",
            fix="discover a column that describes people",
        )
    if attribute.kind not in ("text", "category"):
        raise RequestError(
            f"{attribute.name!r} is of type {attribute.kind}, whose values are known from its declaration.",
            fix=_suggest_for_known_values(spec, schema, attribute),
        )
    require_stored(spec, schema, attribute)


def require_stored(spec: DiscoverSpec, schema: TableSchema, attribute: Attribute) -> None:
    """Refuse a derived column.

    Raises:
        RequestError: it is derived from another one.
    """
    if attribute.function:
        raise RequestError(
            f"{attribute.name!r} is derived from {attribute.argument!r}; only stored columns are discovered.",
            fix=suggest(build_spec(schema, attribute.argument, spec.budget)),
        )


def choose_delta(spec: KeysSpec, schema: TableSchema) -> Fraction:
    """Return the delta that a release of keys may cost.

    Raises:
        RequestError: the account has none for events, or less than is asked for.
    """
    budget, file = schema.budget, schema.budget_file
    if budget.accountant == "pure":
        raise RequestError(
            f"The account of {schema.name!r} is pure, but a release of keys requires a delta: without one, no key "
            "could ever be released.",
            fix=f'accountant = "zcdp", delta = "1e-6", delta_events = "1e-7" under [budget] in {file}',
        )
    if not budget.delta_events:
        raise RequestError(
            f"The account of {schema.name!r} has no delta for a release of keys.",
            fix=build_fix(
                f'delta_events = "{format_digits(budget.delta / 10, 1)}" under [budget] in {file}, then: ',
                let_owner_run("budget set", schema.name),
            ),
        )
    delta = budget.delta_events / DEFAULT_PART if spec.delta is None else parse_exact(spec.delta)
    if delta > budget.delta_events:
        raise RequestError(
            f"delta must be at most the account's delta_events, {format_digits(budget.delta_events)}.",
            fix=suggest(replace(spec, delta=format_digits(budget.delta_events / DEFAULT_PART, up=False))),
        )
    return delta


def require_hope(
    spec: KeysSpec,
    schema: TableSchema,
    threshold: int,
    *,
    amount: Fraction,
    get_variance: Callable[[Fraction], Fraction],
) -> None:
    """Refuse a budget with which not even a value of all rows is surely found, as far as the public size says.

    Args:
        amount: The budget in rho. ``get_variance``: returns the noise that an amount allows.
    Raises:
        RequestError: nothing, or next to nothing, would be found.
    """
    size, sure = schema.size_hint, compute_sure_count(threshold, math.sqrt(get_variance(amount)))
    if size is None or sure <= size:
        return
    finds = (
        "nothing would be found"
        if threshold > size
        else "not even a value shared by all of them would be reliably found"
    )
    raise RequestError(
        f"With this budget a key must be shared by about {threshold:,} units, or {sure:,} to be reliably found, and "
        f"{schema.name!r} has about {size:,} rows: {finds}.",
        fix=_suggest_enough(spec, schema, size, amount, get_variance),
    )


def require_visible_bounds(
    spec: BoundsSpec, schema: TableSchema, most: float, needed: int, *, is_gaussian: bool
) -> None:
    """Refuse a budget whose noise hides all bounds, wherever the values lie, as far as the public size says.

    Args:
        most: The number of rows up to which no bounds are proposed, but for a probability of 0.05.
        needed: The number of rows from which on the noise hides no bounds.
        is_gaussian: Whether the noise falls with the root of the budget.
    Raises:
        RequestError: nothing would be proposed.
    """
    size = schema.size_hint
    if size is None or size > most:
        return
    times = (Fraction(needed) / size) ** (2 if is_gaussian else 1)
    raise RequestError(
        f"With this budget the noise hides all bounds: {schema.name!r} has about {size:,} rows, and from about "
        f"{needed:,} on it hides none. Nothing would be proposed.",
        fix=_suggest_louder(spec, schema, times),
    )


def _suggest_louder(spec: BoundsSpec, schema: TableSchema, times: Fraction) -> FixLike:
    """Suggest ``times`` the budget, if the whole budget of the table covers it."""
    book = schema.budget.accountant
    amount = times * spec.budget.convert_to_account(book, delta=get_report_delta(schema))
    if book == "pure" and amount <= (schema.budget.epsilon or 0):
        return suggest(replace(spec, budget=Budget(epsilon=format_digits(amount, 2))))
    if book == "zcdp" and amount <= _get_whole(schema):
        return suggest(replace(spec, budget=_express(spec.budget, amount, schema)))
    return f"keep the declared bounds, or raise size_hint in schemas/{schema.name}.toml, if it is too low"


def _suggest_enough(
    spec: KeysSpec, schema: TableSchema, size: int, amount: Fraction, get_variance: Callable[[Fraction], Fraction]
) -> FixLike:
    """Suggest the least of some budgets that finds the keys of half of all units, or else of all; none if none does."""
    spec = replace(spec, at_least=min(spec.at_least, max(1, size // 10)))
    delta = choose_delta(spec, schema)
    for wanted in (size // 2, size):
        for tried in _list_amounts(amount, _get_whole(schema)):
            variance = get_variance(tried)
            threshold = compute_threshold(variance, keys_each=spec.keys_each, delta=delta, at_least=spec.at_least)
            if compute_sure_count(threshold, math.sqrt(variance)) <= wanted:
                return suggest(replace(spec, budget=_express(spec.budget, tried, schema)))
    return f"list the values by hand in schemas/{schema.name}.toml, or raise size_hint there, if it is too low"


def _list_amounts(first: Fraction, last: Fraction) -> Iterator[Fraction]:
    while first < last:
        yield first
        first *= _STEP
    yield last


def _get_whole(schema: TableSchema) -> Fraction:
    """Return the whole budget of the account in rho."""
    budget = schema.budget
    if budget.rho is not None:
        return budget.rho
    return Budget(epsilon=budget.epsilon).convert_to_account(budget.accountant, delta=get_report_delta(schema))


def _express(asked: Budget, amount: Fraction, schema: TableSchema) -> Budget:
    """Return the budget of ``amount`` in rho as ``asked`` is: in rho, or in epsilon."""
    if asked.epsilon is None:
        return Budget(rho=format_digits(amount, 2))
    delta = get_report_delta(schema) if asked.delta is None else parse_exact(asked.delta)
    return Budget(epsilon=format_digits(Fraction(convert_zcdp_to_epsilon(float(amount), float(delta))), 2))


def _suggest_for_known_values(spec: KeysSpec, schema: TableSchema, attribute: Attribute) -> FixLike:
    if attribute.is_numeric or attribute.is_temporal:
        return suggest(BoundsSpec(spec.table, spec.column, spec.budget))
    column, table = (name.replace('"', '""') for name in (attribute.name, schema.name))
    return AskWith(f'SELECT "{column}", COUNT(*) FROM "{table}" GROUP BY "{column}" ERROR 100')
