"""Refusing a file takes little memory and little time, whatever the file claims."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.bombs import files as bombs
from benchmarks.bombs import served as bombs_served
from benchmarks.bombs import sources as bombs_sources
from siloquent.errors import ReleaseError, SiloquentError
from siloquent.foreign import DocumentTooLarge, load_json, load_toml
from siloquent.foreign.tables import read_table
from siloquent.releases import verify_release
from siloquent.releases.arrays import pack, unpack
from siloquent.search import catalogue
from siloquent.search.catalogue import load_offer
from siloquent.share.model import load_model

MAX_BYTES = 256 * 2**20
MAX_WORK = 60
"""Times the processor takes for ``_yardstick`` under the same tracing; a reader that believes a bomb takes far more."""


@contextmanager
def little(given: int) -> Iterator[None]:
    """At most ``MAX_BYTES`` more than what was handed in, and at most ``MAX_WORK`` yardsticks of processor time."""
    tracemalloc.start()
    yardstick = _yardstick()
    tracemalloc.reset_peak()
    started = time.process_time()
    try:
        yield
        assert time.process_time() - started < MAX_WORK * yardstick
        assert tracemalloc.get_traced_memory()[1] < MAX_BYTES + given
    finally:
        tracemalloc.stop()


def _yardstick() -> float:
    """The processor's seconds for a hundred thousand small objects."""
    started = time.process_time()
    _ = [str(number) for number in range(100_000)]
    return time.process_time() - started


@pytest.mark.slow
@pytest.mark.parametrize("bomb", bombs.ARRAYS.values(), ids=bombs.ARRAYS)
def test_arrays_are_refused_at_little_cost(bomb: Callable[[], bytes]) -> None:
    data = bomb()
    with little(0), pytest.raises(ReleaseError):
        unpack(data, ("counts[0-9]*",), most=2**23)


@pytest.mark.slow
@pytest.mark.parametrize("bomb", bombs.JSON.values(), ids=bombs.JSON)
def test_json_is_refused_or_read_at_little_cost(bomb: Callable[[], str]) -> None:
    text = bomb()
    with little(len(text)):
        try:
            load_json(text)
        except ValueError:
            return
    # What is read is a long text and nothing else.
    assert "string" in {name for name, made in bombs.JSON.items() if made is bomb}.pop()


@pytest.mark.parametrize("bomb", bombs.TOML.values(), ids=bombs.TOML)
def test_toml_is_refused_at_little_cost(bomb: Callable[[], str]) -> None:
    text = bomb()
    with little(len(text)), pytest.raises(ValueError, match=r".+"):
        load_toml(text)


@pytest.mark.parametrize("bomb", bombs.PARQUET.values(), ids=bombs.PARQUET)
def test_parquet_is_refused_at_little_cost(bomb: Callable[[Path], None], tmp_path: Path) -> None:
    file = tmp_path / "bomb.parquet"
    bomb(file)
    with little(0), pytest.raises(DocumentTooLarge):
        read_table(file)


def test_a_csv_of_very_many_columns_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "bomb.csv"
    bombs.CSV["wide line"](file)
    with little(0), pytest.raises(DocumentTooLarge):
        read_table(file)


@pytest.mark.parametrize("bomb", bombs_sources.DUCKDB.values(), ids=bombs_sources.DUCKDB)
def test_a_database_is_refused_or_answers_at_little_cost(bomb: Callable[[Path], None], tmp_path: Path) -> None:
    file = tmp_path / "bomb.duckdb"
    bomb(file)
    with little(0), pytest.raises((SiloquentError, ValueError)):
        bombs_sources.as_source(file)


@pytest.mark.parametrize("name", ["pipes and links", "8 GiB"])  # 10^5 entries: in the large version
def test_a_folder_is_refused_without_a_wait(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "bomb"
    bombs_sources.FOLDERS[name](folder)
    for read in (bombs_sources.as_catalogue, load_offer, load_model, verify_release):
        with little(0), pytest.raises((ReleaseError, ValueError)):
            read(folder)


def test_a_catalogue_of_too_many_entries_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "MAX_ENTRIES", 20)
    for number in range(21):
        (tmp_path / str(number)).mkdir()
    with pytest.raises(ReleaseError, match="the limit is 20"):
        catalogue.open_catalogue(tmp_path)


@pytest.mark.parametrize("name", bombs_served.PACKED)
def test_an_upload_of_packed_zeros_is_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / "bomb"
    file.write_bytes(bombs_served.packed(name))
    with little(0), pytest.raises(bombs_served.Refused, match="unsupported_media_type"):
        bombs_served.as_upload(file)


@pytest.mark.parametrize("bomb", bombs.PARQUET.values(), ids=bombs.PARQUET)
def test_an_upload_of_a_hostile_parquet_file_costs_little(bomb: Callable[[Path], None], tmp_path: Path) -> None:
    file = tmp_path / "bomb.parquet"
    bomb(file)
    with little(0), pytest.raises((bombs_served.Refused, ValueError)) as found:
        bombs_served.as_upload(file)
    assert str(found.value) in ("upload_refused", "schema_invalid", "it was taken")


@pytest.mark.parametrize("route", [bombs_served.PUT, bombs_served.ACK], ids=["put", "ack"])
def test_a_relay_takes_no_more_of_a_body_than_its_length_says(route: tuple[str, str], tmp_path: Path) -> None:
    endless = iter(lambda: bytes(2**16), b"")
    headers = {"Content-Length": "100", "Transfer-Encoding": "chunked"}
    with little(0):
        status, document, taken = bombs_served.answer_to(bombs_served.relay_of(tmp_path), route, headers, endless)
    assert (status, document["code"]) in ((413, "too_large"), (404, "unknown_session"))
    assert taken <= 2**17


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=9), inner, max_size=5),
    max_leaves=30,
)


@given(value=VALUES)
def test_what_is_honest_is_read_as_it_was_written(value: object) -> None:
    import json

    assert load_json(json.dumps(value)) == value
    assert load_json(json.dumps(value, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")) == value


@given(
    numbers=st.lists(st.integers(-(2**62), 2**62), max_size=50), words=st.dictionaries(st.text(), VALUES, max_size=3)
)
def test_arrays_that_are_honest_are_read_as_they_were_written(numbers: list[int], words: dict[str, object]) -> None:
    counts = np.array(numbers, dtype=np.int64)
    arrays, found = unpack(pack({"counts": counts}, words), ("counts",))
    assert (arrays["counts"] == counts).all()
    assert found == words


@given(cut=st.integers(0, 500), byte=st.integers(0, 255), at=st.integers(0, 500))
def test_arrays_that_were_cut_or_changed_are_refused_or_read_never_worse(cut: int, byte: int, at: int) -> None:
    data = bytearray(pack({"counts": np.arange(30)}, {"format": 1}))
    data[at % len(data)] = byte
    try:
        unpack(bytes(data[: max(0, len(data) - cut)]), ("counts",))
    except ReleaseError:
        return
