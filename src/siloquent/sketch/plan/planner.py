"""Hash functions, noise, event and price from spec and declaration. No row is read; the seed is public."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

from siloquent.errors import AccuracyUnreachable, RequestError
from siloquent.fixes import UseOption, join_choices, run, use_budget
from siloquent.foreign import DocumentTooLarge, read_text
from siloquent.foreign.documents import MAX_JSON_BYTES
from siloquent.maths import normal_quantile
from siloquent.maths.lsh import (
    Angular,
    Hashes,
    MinHashes,
    PStable,
    Surrogate,
    TooNarrow,
    count_uniforms,
    draw_hashes,
    draw_minhashes,
)
from siloquent.maths.lsh.families import is_of_sets
from siloquent.maths.tails.distributions import compute_laplace_variance
from siloquent.privacy import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    format_digits,
    get_accountant,
    parse_exact,
)
from siloquent.privacy.budget import Budget, round_down_to_units, round_up_to_drawable
from siloquent.privacy.prices import describe_price
from siloquent.readable import Readable
from siloquent.schema import TableSchema
from siloquent.sketch.hash_plan import HashedFeature, HashPlan, Sets, parse_hash_plan, require_fit
from siloquent.sketch.plan.features import build_axes, build_hashed_features, list_labels
from siloquent.sketch.spec import MAX_COUNTERS, SketchSpec

Noise = Literal["gaussian", "laplace"]

MAX_AUTO_ROWS, MIN_AUTO_ROWS = 16_384, 64
MAX_AUTO_COUNTERS = 2**23
MAX_NUMBERS = 2**24
"""The largest number of projections of all rows: 128 MiB."""
HASHED_WIDTH = 2_048
"""The default width. For a given number of counters, more rows and fewer buckets are better: the collisions in a bucket
are 1 / (R W) either way, and the rest of a row's variance is 1 / R (benchmarks, K3)."""
WIDEST_RANGE = 8_192
NUMBER_ROWS, SET_ROWS = 0.02, 0.002
"""R over epsilon and size in pure accounts. Few sets are near a given one: their counts need small noise (K1, K3)."""
TYPICAL_SPREAD = 0.06
"""The variance of one row over N f, where all commonly used bandwidths were measured (benchmarks, K1 and K2)."""
_SIZE_UNKNOWN = 1_024


@dataclass(frozen=True, slots=True)
class CounterSensitivity:
    """The sensitivity of the table of counters, and of the numbers of records, to one unit."""

    l1: int
    l2_squared: int
    size: int
    size_squared: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SketchPlan(Readable):
    """A sketch that is ready to be measured: everything except the rows.

    ``parameter``: the counters' noise scale (Laplace) or variance (Gaussian); ``size_parameter``: that of the number
    of records, None where it is not released. ``hits``: the number of rows in which a record counts, None: all.
    """

    spec: SketchSpec
    schema: TableSchema
    hash_plan: HashPlan
    noise: Noise
    parameter: Fraction
    size_parameter: Fraction | None
    sensitivity: CounterSensitivity
    hits: int | None
    event: Event
    notes: tuple[str, ...]

    def __str__(self) -> str:
        budget = self.schema.budget
        return "\n".join(
            [
                f"Plan of a sketch of {self.schema.name}: {self.counters:,} counters",
                f"The noise adds about {self.noise_deviation:,.3g} records to a kernel sum.",
                *self.notes,
                describe_price(self.price, budget.accountant, delta=budget.delta - budget.delta_events),
            ]
        )

    @property
    def price(self) -> Fraction:
        """The charge, in the account's epsilon or rho: whole units of the ledger, rounded up."""
        book = get_accountant(self.schema.budget.accountant)
        return Fraction(book.compute_cost(self.event).amount, book.scale)

    @property
    def noise_deviation(self) -> float:
        """The standard deviation that noise by itself adds to a kernel sum."""
        rows = self.hash_plan.hashes.rows
        return math.sqrt(compute_noise_variance(self.noise, self.parameter) * rows) / (self.hits or rows)

    @property
    def counters(self) -> int:
        """The number of counters."""
        return math.prod(self.hash_plan.shape)

    @property
    def seconds(self) -> float | None:
        """The approximate seconds for counting and noise on one core; None without a size hint."""
        if self.schema.size_hint is None:
            return None
        rows = self.hits or self.hash_plan.hashes.rows
        each = 0.5e-9 * (2 + len(self.hash_plan.features)) if self.hits is None else 5e-9
        return self.schema.size_hint * rows * each + self.counters * 4e-7

    def estimate_typical_error(self, density: float) -> float | None:
        """Estimate the relative standard error of a sum over a share ``density`` of rows; None without a size hint."""
        if self.schema.size_hint is None:
            return None
        size, rows = self.schema.size_hint, self.hash_plan.hashes.rows
        spread = TYPICAL_SPREAD * size**2 * density / rows
        if self.hits is not None:
            spread += size * density / self.hits * (rows - self.hits) / (rows - 1)
        return math.sqrt(spread + self.noise_deviation**2) / (size * density)


def compute_noise_variance(noise: Noise, parameter: Fraction) -> Fraction:
    """Compute the variance of discrete Laplace noise of that scale, or about that of discrete Gaussian noise."""
    return parameter if noise == "gaussian" else compute_laplace_variance(parameter)


def plan(spec: SketchSpec, schema: TableSchema, *, seed: int, summed: bool = False) -> SketchPlan:
    """Plan ``spec``; the same seed gives the same plan.

    Args:
        summed: Noise is added in shares, by several silos.
    Raises:
        SchemaError: A feature has no finite domain, or the kernel does not fit its kind.
        RequestError: Counters, rows, hits or noise do not fit; the message names the largest value that fits.
        AccuracyUnreachable: The accuracy needs more counters than fit.
    """
    features, sets = build_hashed_features(spec, schema)
    labels = list_labels(spec, schema)
    pure = schema.budget.accountant == "pure" or spec.mechanism == "race-2021"
    if spec.plan_file is not None:
        hashed = _build_hash_plan(spec, features, sets, labels)
    else:
        rows = _choose_rows(spec, schema, features, len(labels) or 1, pure, seed)
        hashes = _draw_hashes(spec, features, rows, seed)
        hashed = HashPlan(spec.kernel, features, hashes, sets, spec.label, labels, spec.group, seed % 2**32)
        _require_readable(hashed)
    _check_room(hashed)
    hits = _count_hits(spec, schema, hashed.hashes.rows, pure)
    moved = compute_counter_sensitivity(
        schema, rows=hits or hashed.hashes.rows, grouped=spec.group is not None, classes=hashed.classes
    )
    # Sums of Gaussian shares have one event per variance.
    joint = schema.replace_one and hashed.classes == 1 and (pure or not summed)
    return _price_plan(spec, schema, hashed, hits, moved, pure, joint)


def compute_counter_sensitivity(
    schema: TableSchema, *, rows: int, grouped: bool = False, classes: int = 1
) -> CounterSensitivity:
    """Compute the exact sensitivity of the counters and of the numbers of records; a record counts in ``rows`` rows.

    A record changes one counter per row by one. All of a user's records may fall into one cell. A replaced unit
    leaves one cell and enters another. With labels a record has one class, so the stacked table changes no more than a
    plain one. A replaced unit leaves one class and enters another; without classes it changes the one number by at most
    its records.
    """
    records = 1 if grouped else schema.unit.max_rows
    twice = 2 if schema.replace_one else 1
    sizes = twice if classes > 1 else 1
    return CounterSensitivity(
        l1=twice * rows * records,
        l2_squared=twice * rows * records**2,
        size=sizes * records,
        size_squared=sizes * records**2,
    )


def _draw_hashes(spec: SketchSpec, features: tuple[HashedFeature, ...], rows: int, seed: int) -> Hashes | MinHashes:
    how: Literal["sobol", "iid"] = "iid" if spec.mechanism == "race-2021" else spec.projections
    try:
        if is_of_sets(spec.kernel):
            buckets = spec.width if isinstance(spec.width, int) else HASHED_WIDTH
            return draw_minhashes(spec.kernel, rows=rows, seed=seed, width=buckets)
        _check_numbers(spec, len(features), max(rows, 256))
        width = _choose_width(spec, features, seed)
        axes = build_axes(spec.kernel, features)
        return draw_hashes(spec.kernel, axes, rows=rows, seed=seed, width=width, projections=how)
    except ValueError as wrong:
        raise _refuse_kernel(wrong) from None


def _require_readable(hashed: HashPlan) -> None:
    """Refuse hash functions that a sketch could not be read back with, before anything is spent."""
    try:
        require_fit(hashed)
    except ValueError:
        raise RequestError("These hash functions cannot be written to a file.", fix="another kernel") from None


def _refuse_kernel(wrong: ValueError) -> RequestError:
    fix = "a wider bandwidth" if isinstance(wrong, TooNarrow) else UseOption("width", 4096)
    return RequestError(f"This kernel cannot be drawn: {wrong}.", fix=fix)


def _check_numbers(spec: SketchSpec, features: int, rows: int) -> None:
    """Refuse more projections than fit into memory and into a file, before they are drawn."""
    needed = count_uniforms(spec.kernel, features)
    if rows * needed > MAX_NUMBERS:
        raise RequestError(
            f"{rows:,} rows of {needed:,} projections are too many; the limit is {MAX_NUMBERS:,} in total.",
            fix=UseOption("rows", 1 << math.floor(math.log2(MAX_NUMBERS // needed)))
            if needed * 2 <= MAX_NUMBERS
            else "fewer features or bits",
        )


def _choose_width(spec: SketchSpec, features: tuple[HashedFeature, ...], seed: int) -> int | None:
    """Choose the number of buckets per row; None: one for each code."""
    if isinstance(spec.width, int):
        return spec.width
    straight = isinstance(spec.kernel, PStable) and spec.kernel.order == 2
    has_range = straight or isinstance(spec.kernel, Angular | Surrogate)
    if spec.width == "range" or (has_range and _estimate_range(spec, features, seed) <= WIDEST_RANGE):
        return None
    return HASHED_WIDTH


def _estimate_range(spec: SketchSpec, features: tuple[HashedFeature, ...], seed: int) -> int:
    """Estimate the number of codes of a row, from a few rows."""
    drawn = draw_hashes(
        spec.kernel, build_axes(spec.kernel, features), rows=256, seed=seed, width=None, projections="iid"
    )
    return drawn.width


def _choose_rows(
    spec: SketchSpec, schema: TableSchema, features: tuple[HashedFeature, ...], classes: int, pure: bool, seed: int
) -> int:
    if isinstance(spec.rows, int):
        return spec.rows
    width: float = HASHED_WIDTH
    if isinstance(spec.width, int):
        width = spec.width
    elif not is_of_sets(spec.kernel):
        try:
            if _choose_width(spec, features, seed) is None:
                width = 1.1 * _estimate_range(spec, features, seed)  # all rows together may have somewhat more codes
        except ValueError as wrong:
            raise _refuse_kernel(wrong) from None
    fits = 1 << math.floor(math.log2(max(MAX_AUTO_COUNTERS / (classes * width), MIN_AUTO_ROWS)))
    if not is_of_sets(spec.kernel):
        fits = min(fits, 1 << math.floor(math.log2(max(MAX_NUMBERS // count_uniforms(spec.kernel, len(features)), 1))))
    most = min(MAX_AUTO_ROWS, fits)
    if spec.accuracy is not None:
        return _choose_rows_for_accuracy(spec, schema, most)
    if not pure:
        return most
    if schema.size_hint is None:
        return min(most, _SIZE_UNKNOWN)
    epsilon = (
        float(_compute_epsilon(spec, schema))
        / compute_counter_sensitivity(schema, rows=1, grouped=spec.group is not None).l1
    )
    share = SET_ROWS if is_of_sets(spec.kernel) else NUMBER_ROWS
    best = 1 << round(math.log2(max(share * epsilon * schema.size_hint, 1)))
    return min(max(best, MIN_AUTO_ROWS), most)


def _compute_wanted_variance(spec: SketchSpec, schema: TableSchema) -> tuple[float, float]:
    """Compute the variance T that an accuracy allows a kernel sum, and the variance V of one row."""
    assert spec.accuracy is not None
    if schema.size_hint is None:
        raise RequestError(
            "An accuracy relative to the table needs its rough public size.",
            fix=f"size_hint = ... under [table] in schemas/{schema.name}.toml, or give a budget",
        )
    goal, size = spec.accuracy, schema.size_hint
    error = goal.relative * goal.at_density * size
    spread = 1.0 if goal.planning == "guaranteed" else TYPICAL_SPREAD
    return (error / normal_quantile(1 - goal.beta / 2)) ** 2, spread * size**2 * goal.at_density


def _choose_rows_for_accuracy(spec: SketchSpec, schema: TableSchema, most: int) -> int:
    allowed, variance = _compute_wanted_variance(spec, schema)
    rows = max(MIN_AUTO_ROWS, 1 << math.ceil(math.log2(max(2 * variance / allowed, 1))))
    if rows > most:
        assert spec.accuracy is not None
        best = spec.accuracy.relative * math.sqrt(rows / most)
        raise AccuracyUnreachable(
            f"This accuracy needs {rows:,} rows of counters; {most:,} fit.",
            best_alpha=best,
            fix=join_choices([UseOption("relative", format_digits(best, 3)), UseOption("planning", "typical")]),
        )
    return rows


def _build_hash_plan(
    spec: SketchSpec, features: tuple[HashedFeature, ...], sets: Sets, labels: tuple[object, ...]
) -> HashPlan:
    hashed = read_hash_plan(spec.plan_file or Path())
    ours = (spec.kernel, features, sets, spec.label, labels, spec.group)
    theirs = (hashed.kernel, hashed.features, hashed.sets, hashed.label, hashed.labels, hashed.group)
    for name, mine, other in zip(("kernel", "features", "sets", "label", "labels", "group"), ours, theirs, strict=True):
        if mine != other:
            raise RequestError(
                f"The hash plan in {spec.plan_file} does not have the same {name} as this table and spec.",
                fix="make one plan for equal declarations and send it to all silos",
            )
    return hashed


def read_hash_plan(path: Path) -> HashPlan:
    """Read the hash plan in a file.

    Raises:
        RequestError: There is no such file. ReleaseError: It is not a plan.
    """
    try:
        return parse_hash_plan(read_text(path, MAX_JSON_BYTES))
    except (OSError, UnicodeDecodeError, DocumentTooLarge):
        raise RequestError(
            f"{path} is not a readable hash plan.", fix=run("sketch plan", "...", "-o", "FILE")
        ) from None


def _check_room(hashed: HashPlan) -> None:
    classes, rows, width = hashed.shape
    if classes * rows * width > MAX_COUNTERS:
        fits = 1 << math.floor(math.log2(max(MAX_COUNTERS / (classes * width), 1)))
        raise RequestError(
            f"{classes} x {rows:,} x {width:,} counters are too many; the limit is {MAX_COUNTERS:,}.",
            fix=join_choices([UseOption("rows", fits), "a wider bandwidth"]) if fits >= 2 else UseOption("width", 4096),
        )


def _count_hits(spec: SketchSpec, schema: TableSchema, rows: int, pure: bool) -> int | None:
    if spec.hits > rows:
        raise RequestError(f"hits must be at most the number of rows, {rows}.", fix=UseOption("hits", rows))
    if spec.mechanism == "race-2021" or spec.mode == "dense":
        return None
    if spec.mode == "sparse":
        if not pure:
            raise RequestError(
                "A sparse sketch in a zCDP account has R / hits times the noise of a dense one.",
                fix=UseOption("mode", "dense"),
            )
        if rows & (rows - 1):
            raise RequestError(
                f"The number of rows of a sparse sketch must be a power of two, not {rows}.",
                fix=UseOption("rows", 1024),
            )
        return spec.hits
    heavy = (schema.size_hint or 0) * rows > 2e9
    return spec.hits if pure and heavy and not rows & (rows - 1) else None


def _compute_epsilon(spec: SketchSpec, schema: TableSchema) -> Fraction:
    """Compute the pure price of a budget; the paper's method is pure in every account."""
    assert spec.budget is not None
    if spec.mechanism == "race-2021" and spec.budget.epsilon is not None:
        return _compute_pure_amount(parse_exact(spec.budget.epsilon), schema.budget.accountant)
    if schema.budget.accountant != "pure":
        raise RequestError("The paper's method needs a budget in epsilon.", fix=use_budget("epsilon", "1"))
    return convert_budget(spec.budget, schema)


def _compute_pure_amount(epsilon: Fraction, name: str) -> Fraction:
    """Compute the largest part of ``epsilon`` whose charge in an account of ``name`` is not rounded up beyond it."""
    if name == "pure":
        return round_down_to_units(epsilon, name)
    rho = round_down_to_units(epsilon**2 / 2, name)
    return min(epsilon, Fraction(math.isqrt(math.floor(2 * rho * 10**36)), 10**18))


def convert_budget(budget: Budget, schema: TableSchema) -> Fraction:
    """Convert a budget to the account's unit: epsilon, or rho.

    Raises:
        RequestError: A rho or a delta is given for a pure account.
    """
    account = schema.budget
    return budget.convert_to_account(account.accountant, delta=account.delta - account.delta_events)


def _price_plan(
    spec: SketchSpec,
    schema: TableSchema,
    hashed: HashPlan,
    hits: int | None,
    moved: CounterSensitivity,
    pure: bool,
    joint: bool,
) -> SketchPlan:
    """Compute the noise for a budget.

    Args:
        joint: Replacing a unit changes either twice as many counters, or the number of records. Noise on that number
            with a ``rows``-th of the counters' parameter is then included in their price. Proof:
            docs/explanation/sketch.md.
    """
    rows = hits or hashed.hashes.rows
    share = Fraction(spec.share_for_sizes)
    joint = joint and bool(share)
    counted = Fraction(1) if joint else 1 - share
    amount = _compute_amount(spec, schema, moved, rows, pure) / counted if spec.accuracy else None
    parts: list[DiscreteLaplace | DiscreteGaussian] = []
    bought = ((moved.l1, moved.l2_squared, counted), (moved.size, moved.size_squared, 1 - counted))
    if pure:
        total = amount or _compute_epsilon(spec, schema)
        parts += [DiscreteLaplace(round_up_to_drawable(l1 / (total * part)), l1) for l1, _, part in bought if part]
    else:
        total = amount or convert_budget(_get_budget(spec), schema)
        parts += [DiscreteGaussian(round_up_to_drawable(l2 / (2 * total * part)), l2) for _, l2, part in bought if part]
    numbers = [part.scale if isinstance(part, DiscreteLaplace) else part.variance for part in parts]
    numbers += [round_up_to_drawable(numbers[0] / rows)] if joint else []
    if max(numbers) > 2**40:
        raise RequestError("The budget is too small: that much noise cannot be drawn.", fix='epsilon = "0.001" or more')
    made = SketchPlan(
        spec=spec,
        schema=schema,
        hash_plan=hashed,
        noise="laplace" if pure else "gaussian",
        parameter=numbers[0],
        size_parameter=numbers[1] if share else None,
        sensitivity=moved,
        hits=hits,
        event=parts[0] if len(parts) == 1 else Composed(tuple(parts)),
        notes=(),
    )
    return _add_notes(made)


def _get_budget(spec: SketchSpec) -> Budget:
    assert spec.budget is not None
    return spec.budget


def _compute_amount(
    spec: SketchSpec, schema: TableSchema, moved: CounterSensitivity, rows: int, pure: bool
) -> Fraction:
    """Compute the price of counters for an accuracy: the allowed variance minus the rows' spread is noise."""
    allowed, variance = _compute_wanted_variance(spec, schema)
    noise = allowed - variance / rows
    if noise <= 0:
        raise AccuracyUnreachable(f"{rows} rows cannot reach this accuracy.", fix=UseOption("rows", "auto"))
    # A kernel sum has 1/rows of one counter's variance: 2 scale^2 / rows, or variance / rows.
    return Fraction(moved.l1 * math.sqrt(2 / (rows * noise)) if pure else moved.l2_squared / (2 * rows * noise))


def _add_notes(made: SketchPlan) -> SketchPlan:
    from dataclasses import replace

    notes = []
    size, width = made.schema.size_hint, made.hash_plan.hashes.width
    if size is not None and made.noise_deviation > size / width:
        notes.append(
            f"noise of +-{format_digits(made.noise_deviation, 2)} hides sums below "
            f"{format_digits(2 * made.noise_deviation, 2)} records; with {size:,} rows many points lie below"
        )
    if made.spec.accuracy is not None and made.spec.accuracy.planning == "typical":
        notes.append("the accuracy is typical, not guaranteed: it takes the rows' spread from experience")
    if made.spec.group is not None:
        notes.append(f"one unit is what {made.spec.group} lists; that others list it is not hidden")
    return replace(made, notes=tuple(notes))
