"""Sketches as files that run nothing, and sums of sketches that were made with one plan."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from siloquent.errors import ReleaseError, RequestError
from siloquent.releases import read_manifest
from siloquent.sketch import (
    Angular,
    Budget,
    Density,
    Hamming,
    Jaccard,
    Laplacian,
    Power,
    Product,
    PStable,
    Sketch,
    Surrogate,
    ask,
    build,
    decode_sketch,
    load_sketch,
    merge,
    plan,
    save_sketch,
)
from siloquent.sketch.hash_plan import HashPlan, parse_hash_plan
from unit.sketch.tables import PURE, rows, schema, session, spec


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Sketch:
    return build(session(tmp_path_factory.mktemp("file")), spec(rows=64))


def member(name: str, array: np.ndarray, data: bytes) -> bytes:
    """The file with one array replaced."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            if info.filename != name:
                new.writestr(info.filename, old.read(info))
        file = io.BytesIO()
        np.lib.format.write_array(file, array, allow_pickle=True)
        new.writestr(name, file.getvalue())
    return out.getvalue()


class Bomb:
    """Reading it as an object would run this."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (pytest.fail, ("code in a file was run",))


HOSTILE = {
    "nothing": lambda data, _: b"",
    "no archive": lambda data, _: b"PK\x03\x04" + b"x" * 100,
    "a cut file": lambda data, _: data[: len(data) // 2],
    "a flipped byte": lambda data, _: data[:200] + bytes([data[200] ^ 255]) + data[201:],
    "objects": lambda data, s: member("counters.npy", np.array([Bomb()], dtype=object), data),
    "floats": lambda data, s: member("counters.npy", s.counters.astype(float), data),
    "another shape": lambda data, s: member("counters.npy", s.counters[:, :-1], data),
    "sizes of another shape": lambda data, s: member("sizes.npy", np.zeros(5, np.int64), data),
    "a plan that is none": lambda data, s: member("plan.npy", np.frombuffer(b"{}", np.uint8), data),
    "words that are none": lambda data, s: member("words.npy", np.frombuffer(b"[[", np.uint8), data),
    "deep words": lambda data, s: member("words.npy", np.frombuffer(b"[" * 100_000, np.uint8), data),
}


@pytest.mark.parametrize("broken", HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_is_no_sketch_is_refused_before_any_use(broken: object, made: Sketch) -> None:
    with pytest.raises(ReleaseError):
        decode_sketch(broken(made.to_bytes(), made))  # type: ignore[operator]


def test_an_array_too_large_is_refused_by_its_header(made: Sketch) -> None:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<i8", "fortran_order": False, "shape": (2**40,)})
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as new:
        for name in ("counters.npy", "plan.npy", "sizes.npy", "words.npy"):
            new.writestr(name, file.getvalue())
    with pytest.raises(ReleaseError, match="truncated or altered"):
        decode_sketch(out.getvalue())


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[" * 50_000, '{"format": 2}', '{"format": 1, "kernel": {"kind": "p-stable"}}', "null"],
)
def test_a_hash_plan_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ReleaseError):
        parse_hash_plan(text)


KERNELS: dict[str, dict[str, object]] = {
    "p-stable": {},
    "hashed": {"width": 64},
    "cauchy": {"kernel": PStable(1, 0.3)},
    "laplacian": {"kernel": Laplacian(0.3)},
    "angular": {"kernel": Angular(3)},
    "hamming": {"kernel": Hamming(2), "features": ("kind", "wet")},
    "surrogate": {"kernel": Surrogate(3)},
    "power": {"kernel": Power(PStable(2, 0.5), 2)},
    "product": {"kernel": Product((PStable(2, 0.5), Laplacian(0.5)))},
    "jaccard": {"kernel": Jaccard(), "features": ("kind", "wet")},
    "words": {"kernel": Power(Jaccard(), 2), "features": ("line",)},
}


@pytest.mark.parametrize("given", KERNELS.values(), ids=KERNELS)
def test_a_hash_plan_of_every_kernel_is_read_again(given: dict[str, object]) -> None:
    hashed = plan(spec(rows=64, **given), schema(), seed=3).hash_plan
    assert parse_hash_plan(hashed.to_json()).digest == hashed.digest


def changed(array: np.ndarray, at: tuple[int, ...], value: float) -> np.ndarray:
    array = array.copy()
    array[at] = value
    return array


HOSTILE: dict[str, tuple[dict[str, object], Callable[[HashPlan], dict[str, object]]]] = {
    "fewer buckets than codes": ({}, lambda p: {"width": p.hashes.width - 1}),
    "codes below the buckets": ({}, lambda p: {"low": changed(p.hashes.low, (5,), p.hashes.low[5] + 1)}),
    "a longer projection": ({}, lambda p: {"A": changed(p.hashes.A, (7, 0, 0), p.hashes.A[7, 0, 0] * 64)}),
    "a projection beyond whole numbers": ({}, lambda p: {"A": changed(p.hashes.A, (7, 0, 0), 2.0**52)}),
    "a projection between whole numbers": ({}, lambda p: {"A": changed(p.hashes.A, (7, 0, 0), 0.5)}),
    "an offset that is no number": ({}, lambda p: {"B": changed(p.hashes.B, (7, 0), np.nan)}),
    "too few coefficients": ({}, lambda p: {"A": p.hashes.A[:, :, :1]}),
    "an attribute that is not there": (
        {"kernel": Laplacian(0.3)}, lambda p: {"column": changed(p.hashes.column, (3, 0), 2)},
    ),
    "an attribute before the first": (
        {"kernel": Laplacian(0.3)}, lambda p: {"column": changed(p.hashes.column, (3, 0), -2)},
    ),
    "one row by an attribute, the others not": ({}, lambda p: {"column": changed(p.hashes.column, (3, 0), 0)}),
    "a width between powers of two": ({"kernel": Laplacian(0.3)}, lambda p: {"width": p.hashes.width - 1}),
    "fewer buckets than bits": ({"kernel": Angular(3)}, lambda p: {"width": 4}),
}  # fmt: skip


@pytest.mark.parametrize(("given", "change"), HOSTILE.values(), ids=HOSTILE)
def test_a_hash_plan_that_would_count_beyond_its_counters_is_refused(
    given: dict[str, object], change: Callable[[HashPlan], dict[str, object]]
) -> None:
    hashed = plan(spec(rows=64, **given), schema(), seed=3).hash_plan
    hostile = replace(hashed, hashes=replace(hashed.hashes, **change(hashed)))  # type: ignore[type-var]
    with pytest.raises(ReleaseError, match="cannot be read"):
        parse_hash_plan(hostile.to_json())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"steps":1001', '"steps":"many"'),
        ('"steps":1001', '"steps":10000001'),
        ('"steps":1001', '"steps":0'),
        ('"grid":0.01', '"grid":0'),
        ('"scale":10.0', '"scale":NaN'),
        ('"sets":"none"', '"sets":"words"'),
        ('"label":null', '"label":"kind"'),
        ('"kind":"p-stable","order":2', '"kind":"p-stable","order":3'),
        ('"lo":0.0', f'"lo":1{"0" * 400}'),
        ('"token_key":', '"token_key":1e999,"t":'),
        ('"width":', '"width":1e999,"w":'),
    ],
)
def test_words_of_a_hash_plan_that_do_not_fit_are_refused(old: str, new: str, made: Sketch) -> None:
    text = made.plan.to_json()
    assert old in text
    with pytest.raises(ReleaseError, match="cannot be read"):
        parse_hash_plan(text.replace(old, new, 1))


def test_a_range_of_codes_for_a_surrogate_loss_is_refused_since_models_lie_beyond_the_records() -> None:
    hashed = plan(spec(rows=64, kernel=Surrogate(3)), schema(), seed=3).hash_plan
    projections = np.zeros((64, 1, hashed.hashes.A.shape[2]))
    projections[:, 0, 0] = 1.0
    none, start = np.zeros((64, 1), dtype=np.int64), np.zeros(64, dtype=np.int64)
    ranged = replace(
        hashed.hashes,  # type: ignore[type-var]
        A=projections, B=np.zeros((64, 1)), shift=none, column=none - 1, low=start, width=1_001, bucket="range",
    )  # fmt: skip
    with pytest.raises(ReleaseError, match="cannot be read"):
        parse_hash_plan(replace(hashed, hashes=ranged).to_json())


def test_a_changed_hash_plan_has_another_digest_or_is_refused(made: Sketch) -> None:
    text = made.plan.to_json()
    assert parse_hash_plan(text).digest == made.plan.digest
    assert parse_hash_plan(text.replace('"scale":10.0', '"scale":11.0')).digest != made.plan.digest
    with pytest.raises(ReleaseError):
        parse_hash_plan(text.replace('"bucket":"range"', '"bucket":"other"'))


def test_an_edited_release_is_refused_by_its_hash(tmp_path: Path) -> None:
    opened = session(tmp_path)
    folder = opened.sketch.save(build(opened, spec(rows=64)))
    other = build(opened, spec(rows=64))
    (folder / "sketch.npz").write_bytes(other.to_bytes())
    with pytest.raises(ReleaseError, match="changed after its release"):
        load_sketch(folder)
    (folder / "sketch.npz").unlink()
    with pytest.raises(ReleaseError, match="contains no sketch"):
        load_sketch(folder)


def silos(folder: Path, count: int = 3, **given: object) -> list[Sketch]:
    """One sketch a silo, over disjoint parts of the rows, all from one plan file."""
    folder.mkdir(exist_ok=True)
    file = folder / "plan.json"
    kept = {name: value for name, value in given.items() if name in ("rows", "kernel", "label", "width")}
    file.write_text(plan(spec(**kept), schema(), seed=5).hash_plan.to_json())
    frame, found = rows(), []
    for i in range(count):
        (folder / f"{i}").mkdir()
        part = frame.slice(i * len(frame) // count, len(frame) // count)
        found.append(build(session(folder / f"{i}", part, budget=PURE), spec(plan_file=file, **given)))
    return found


def test_silos_that_share_a_plan_add_up(tmp_path: Path) -> None:
    parts = silos(tmp_path, budget=Budget(epsilon="50"))
    whole = merge(parts)
    assert np.array_equal(whole.counters, sum(part.counters for part in parts))
    assert whole.variance == 3 * parts[0].variance
    assert abs(int(whole.sizes[0]) - 2_000) < 30  # type: ignore[index]
    assert "A sum of 3 sketches" in whole.describe_guarantee()
    points = [[2.5, 30], [7.0, 65]]
    assert ask(whole, Density(points)).values == pytest.approx(sum(ask(p, Density(points)).values for p in parts))
    again = decode_sketch(whole.to_bytes())
    assert again.parts == whole.parts


def test_what_does_not_fit_together_is_not_added_up(tmp_path: Path, made: Sketch) -> None:
    one, two = silos(tmp_path / "a", 2, budget=Budget(epsilon="5"))
    with pytest.raises(RequestError, match="different hash plans"):
        merge([one, made])
    with pytest.raises(RequestError, match="named twice"):
        merge([one, two, one])
    with pytest.raises(RequestError, match="different noise"):
        merge([one, replace(two, noise="gaussian")])
    with pytest.raises(RequestError, match="different units"):
        merge([one, replace(two, parts=(replace(two.parts[0], unit="all rows of one person"),))])
    with pytest.raises(RequestError, match="at least one sketch"):
        merge([])
    again = replace(two, parts=(replace(one.parts[0], seq=9, account="points@1/ana"),))
    with pytest.raises(RequestError, match="of one table, points@1: its records would count twice"):
        merge([one, again])
    copy = replace(one, parts=two.parts)  # a sum that several silos keep, each in its own ledger
    with pytest.raises(RequestError, match="named twice"):
        merge([one, copy])


def test_a_merged_sketch_is_a_release_of_its_own(tmp_path: Path) -> None:
    opened = session(tmp_path)
    whole = merge(silos(tmp_path / "silos", 2, budget=Budget(epsilon="5")))
    folder = opened.sketch.save(whole)
    assert folder.name.startswith("m-")
    assert len(opened.sketch.load(folder).parts) == 2
    receipt = read_manifest(folder).receipt
    assert [(one["ledger"], one["seq"], one["hash"], one["account"]) for one in receipt["all"]] == [
        (part.ledger, part.seq, part.hash, part.account) for part in whole.parts
    ]
    assert all(f"ledger {part.ledger[:12]}" in whole.describe_guarantee() for part in whole.parts)


def test_another_sum_does_not_take_the_place_of_one_with_the_same_first_part(tmp_path: Path) -> None:
    one, two, three = silos(tmp_path / "silos", budget=Budget(epsilon="5"))
    folder = save_sketch(merge([one, two]), tmp_path / "all")
    assert save_sketch(merge([one, two]), folder) == folder
    with pytest.raises(ReleaseError, match="a different release"):
        save_sketch(merge([one, three]), folder)


def test_who_holds_a_part_of_a_sum_can_take_it_off_again(tmp_path: Path) -> None:
    one, two = silos(tmp_path, 2, budget=Budget(epsilon="5"))
    assert np.array_equal(merge([one, two]).counters - one.counters, two.counters)  # so each needs noise of its own


ASKED = {
    "a point too short": ([[1.0]], "have 2 numbers each"),
    "a NaN": ([[1.0, 2.0], [float("nan"), 1.0]], "Point 1 contains NaN"),
    "text": ([["a", "b"]], "must be numbers"),
    "a cube": (np.zeros((2, 2, 2)), "have shape"),
}


@pytest.mark.parametrize(("points", "words"), ASKED.values(), ids=ASKED)
def test_a_point_that_is_none_is_refused_with_its_number(points: object, words: str, made: Sketch) -> None:
    with pytest.raises(RequestError, match=words):
        ask(made, Density(points))


def test_points_outside_are_moved_to_the_edge_and_flagged(made: Sketch) -> None:
    found = ask(made, Density([[-5, 50], [np.inf, 50], [10, 50], [0, 50]]))
    assert found.outside.tolist() == [True, True, False, False]
    assert found.values[0] == found.values[3]
    assert found.values[1] == found.values[2]


def test_no_points_give_no_answers(made: Sketch) -> None:
    assert ask(made, Density(np.zeros((0, 2)))).values.shape == (0,)


def test_a_set_that_is_none_is_refused_with_its_number(tmp_path: Path) -> None:
    words = build(session(tmp_path), spec(features=("line",), kernel=Jaccard(), scale="raw"))
    with pytest.raises(RequestError, match="Point 1 is not text"):
        ask(words, Density(["fine", 3]))
    assert ask(words, Density([""])).outside.tolist() == [True]


def test_a_question_of_another_kind_is_refused(made: Sketch) -> None:
    with pytest.raises(RequestError, match="does not answer int"):
        ask(made, 3)  # type: ignore[call-overload]
    assert isinstance(made.plan.kernel, PStable)
