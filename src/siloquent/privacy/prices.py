"""Prices in words: an amount in the account's epsilon or rho, and what a rho means."""

from __future__ import annotations

from fractions import Fraction

from siloquent.privacy.accountants import AccountantName, get_accountant
from siloquent.privacy.conversions import convert_zcdp_to_epsilon
from siloquent.privacy.guarantee import format_digits


def describe_price(amount: Fraction, accountant: AccountantName, *, delta: Fraction) -> str:
    """Return the last line of a plan: the price of ``amount``, rounded up, and that nothing was spent.

    Args:
        delta: The delta at which a price in rho is told as an epsilon.

    >>> describe_price(Fraction(1, 8), "zcdp", delta=Fraction(1, 10**6))
    'Price: rho 0.125 (epsilon 2.42 at delta 0.000001 on its own). No data was read and nothing was spent.'
    """
    symbol = get_accountant(accountant).symbol
    meaning = ""
    if symbol == "rho" and amount:
        epsilon = convert_zcdp_to_epsilon(float(amount), float(delta))
        meaning = f" (epsilon {format_digits(epsilon)} at delta {format_digits(delta)} on its own)"
    return f"Price: {symbol} {format_digits(amount)}{meaning}. No data was read and nothing was spent."
