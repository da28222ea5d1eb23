"""What shares of noise are drawn, for tests of sums over silos."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from siloquent.privacy.noise import distributed


def recorded_shares(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Fraction, int, int]]:
    """Kind, parameter, number of honest silos and length of each share of noise that is drawn from now on."""
    seen: list[tuple[str, Fraction, int, int]] = []
    for name, parameter in (("add_gaussian_share", "variance"), ("add_laplace_share", "scale")):
        real = getattr(distributed, name)

        def drawn(values: Any, *, real: Any = real, parameter: str = parameter, honest: int, **named: Any) -> Any:
            kind = "gaussian" if parameter == "variance" else "laplace"
            seen.append((kind, Fraction(named[parameter]), honest, values.size))
            return real(values, honest=honest, **named)

        monkeypatch.setattr(distributed, name, drawn)
    return seen
