"""A table's whole budget as its owner sets it: written into the file that declares it, for as long as a block holds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from siloquent.errors import NotAllowed, RequestError, SchemaError
from siloquent.fixes import BeOwner, build_fix, run
from siloquent.privacy.accountants import parse_exact

if TYPE_CHECKING:
    from siloquent.schema import TableSchema

Symbol = Literal["epsilon", "rho"]
Amount = str | int | Decimal | Fraction
"""An amount of epsilon or rho; never a float, since 0.1 is not one tenth."""


@contextmanager
def writing_budget(
    folder: Path, schema: TableSchema, analyst: str | None, *, epsilon: Amount | None, rho: Amount | None
) -> Iterator[None]:
    """Declare ``epsilon`` or ``rho`` as the whole budget of a table; if the block fails, the file is as before.

    Raises:
        NotAllowed: the session is an analyst's. RequestError: the amount is not above 0, or the budget is declared in
            the other unit. SchemaError: the file must be edited by hand, or the table is a frame's.
    """
    from siloquent.schema.files.epochs import declare_amount

    if epsilon is None and rho is None:
        yield
        return
    if analyst is not None:
        raise NotAllowed("Only the owner may set a budget.", fix=BeOwner())
    symbol, amount = _choose(schema, epsilon, rho)
    file = folder / schema.budget_file
    if not file.is_file():  # of a frame, whose declaration is a value
        raise SchemaError(
            f"{schema.name!r} is declared in Python, not in a file.",
            fix=build_fix(
                f"declare it with {symbol}={amount!r}, add_frame it again, then: ", run("budget set", schema.name)
            ),
        )
    before = file.read_bytes()
    if not declare_amount(file, symbol, amount):
        raise SchemaError(
            f"The budget in {schema.budget_file} is written in another way than [budget] and {symbol} = ...",
            fix=build_fix(
                f'{symbol} = "{amount}" under [budget] in {schema.budget_file}, then: ', run("budget set", schema.name)
            ),
        )
    try:
        yield
    except BaseException:  # allowed: whatever went wrong, the file is put back, and it is raised again
        building = file.with_suffix(".toml.new")
        building.write_bytes(before)
        os.replace(building, file)
        raise


def _choose(schema: TableSchema, epsilon: Amount | None, rho: Amount | None) -> tuple[Symbol, str]:
    if epsilon is not None and rho is not None:
        raise RequestError(
            "A budget is epsilon or rho, not both.", fix=run("budget set", schema.name, "--epsilon", "1")
        )
    symbol: Symbol = "epsilon" if rho is None else "rho"
    declared: Symbol = "epsilon" if schema.budget.rho is None else "rho"
    value = parse_exact(epsilon if rho is None else rho)  # type: ignore[arg-type]
    if symbol != declared:
        raise RequestError(
            f"The budget of {schema.name!r} is declared as {declared}.",
            fix=f"set it as {declared}, or write {symbol} in {schema.budget_file}",
        )
    text = f"{Decimal(value.numerator) / Decimal(value.denominator):f}"
    if value <= 0 or Fraction(text) != value:
        raise RequestError(
            f"A budget must be above 0 and have at most 28 digits, not {value}.",
            fix=run("budget set", schema.name, "--rho", "1")
            if symbol == "rho"
            else run("budget set", schema.name, "--epsilon", "1"),
        )
    return symbol, text
