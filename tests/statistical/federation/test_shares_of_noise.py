"""One silo's own share of noise in a sum, by the release path of sketch and share: as wide as its law, and no less.

False alarms: 1e-9 a test. Each has a twin in which a silo's share is for one honest silo more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, nbinom

from benchmarks.replay.audit import opened
from benchmarks.replay.silos import shared, sketched
from siloquent.privacy.budget import Budget
from siloquent.privacy.noise import distributed
from siloquent.schema import TableSchema
from siloquent.schema.build import parse_schema
from siloquent.share import ShareSpec
from siloquent.share.plan import plan as plan_share
from siloquent.sketch import PStable, SketchSpec
from siloquent.sketch.plan import plan as plan_sketch

Integers = NDArray[np.int64]
FALSE_ALARM = 1e-9
ACCOUNTS = {
    "laplace": 'accountant = "pure"\nepsilon = "100"',
    "gaussian": 'accountant = "zcdp"\nrho = "100"\ndelta = "1e-6"',
}
NAMES = tuple("abcdefghij")
TOML = """
format = 1
attribute = [
{attributes}
  {{ name = "ill", type = "boolean", null = "drop" }},
]
[table]
name = "visits"
size_hint = 1000
adjacency = "add-remove"
unit = {{ kind = "row" }}
[budget]
{budget}
"""
NUMBER = '  {{ name = "{}", type = "integer", lo = 0, hi = 99, outside = "clamp", null = "drop" }},'
NOBODY = pa.table({**{name: pa.array([], pa.int64()) for name in NAMES}, "ill": pa.array([], pa.bool_())})
"""No rows: all that a silo gives is its share of the noise."""


def declared(noise: str) -> TableSchema:
    attributes = "\n".join(map(NUMBER.format, NAMES))
    return parse_schema(TOML.format(attributes=attributes, budget=ACCOUNTS[noise]))


def of_share(schema: TableSchema, honest: int) -> tuple[Integers, Fraction]:
    """What a silo gives to a sum of pairs of bins, and the parameter of the whole sum's noise."""
    spec = ShareSpec(
        table="visits",
        label="ill",
        features=NAMES,
        method="gram",
        budget=Budget(epsilon="20"),
        trust="sum",
        agents=4,
        honest=honest,
    )
    with opened(schema, NOBODY) as session:
        given = np.frombuffer(shared(session, spec), dtype=np.int64)  # type: ignore[arg-type]
    (run,) = plan_share(spec, schema).runs
    return given, run.parameter


def of_sketch(schema: TableSchema, honest: int) -> tuple[Integers, Fraction]:
    """What a silo gives to a sum of sketches, and the parameter of the whole sum's noise on a counter."""
    spec = SketchSpec("visits", ("a", "b"), PStable(2, 0.05), budget=Budget(epsilon="2"), scale="range", rows=128)
    with opened(schema, NOBODY) as session:
        given = np.frombuffer(sketched(session, spec, honest), dtype=np.int64)  # type: ignore[arg-type]
    return given, plan_sketch(spec, schema, seed=1, summed=True).parameter


def widths(noise: str, parameter: Fraction, honest: int) -> NDArray[np.float64]:
    """P[abs(share) <= 0, 1, 2, ..] by the law of one of ``honest`` shares; it does not read the product's own."""
    far = 40 * math.ceil(float(parameter) if noise == "laplace" else math.sqrt(parameter))
    if noise == "gaussian":
        x = np.arange(-far, far + 1)
        law = np.exp(-(x.astype(float) ** 2) / (2 * math.ceil(parameter / honest)))
        law /= law.sum()
    else:
        polya = nbinom.pmf(np.arange(far + 1), 1 / honest, -math.expm1(-1 / float(parameter)))
        law = np.convolve(polya, polya[::-1])
    middle = len(law) // 2
    return np.asarray(np.cumsum(law[middle:] + np.append(0.0, law[:middle][::-1])))


def assert_as_wide_as_its_law(given: Integers, noise: str, parameter: Fraction, honest: int) -> None:
    """As many numbers within the law's middle half, and within its middle nine tenths, as there should be."""
    within = widths(noise, parameter, honest)
    for share in (0.5, 0.9):
        width = int(np.searchsorted(within, share))
        hits, law = int((np.abs(given) <= width).sum()), (given.size, float(within[width]))
        low, high = binom.ppf(FALSE_ALARM / 4, *law), binom.isf(FALSE_ALARM / 4, *law)
        assert low <= hits <= high, f"{hits} of {given.size} within {width}; its law gives {low:.0f} to {high:.0f}"


MADE = {"share": of_share, "sketch": of_sketch}


@pytest.mark.parametrize("honest", [2, 3])
@pytest.mark.parametrize("noise", ACCOUNTS)
@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_a_silos_share_is_as_wide_as_its_law(made: Callable[..., Any], noise: str, honest: int) -> None:
    given, parameter = made(declared(noise), honest)
    assert given.size > 9_000
    assert_as_wide_as_its_law(given, noise, parameter, honest)


def for_one_more(real: Callable[..., Integers]) -> Callable[..., Integers]:
    return lambda values, *, honest, **settings: real(values, honest=honest + 1, **settings)


@pytest.mark.parametrize("honest", [2, 3])
@pytest.mark.parametrize("noise", ACCOUNTS)
@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_a_share_for_one_silo_more_is_caught(made: Callable[..., Any], noise: str, honest: int) -> None:
    with ExitStack() as stack:
        for name in ("add_laplace_share", "add_gaussian_share"):
            stack.enter_context(patch.object(distributed, name, for_one_more(getattr(distributed, name))))
        given, parameter = made(declared(noise), honest)
    with pytest.raises(AssertionError, match="its law gives"):
        assert_as_wide_as_its_law(given, noise, parameter, honest)
