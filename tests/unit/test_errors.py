"""Every error passes between processes with all that it says."""

from __future__ import annotations

import copy
import importlib
import inspect
import multiprocessing
import pickle
import pkgutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

import pytest

import siloquent
from siloquent.errors import CAUSES, PortableError, ProtocolError, SiloquentError
from siloquent.fixes import AskWith, UseOption, build_fix, run
from unit.raising import raised

VALUES: dict[str, list[Any]] = {
    "str": ["", "visits, \u00e4 'quoted'\n"],
    "int": [0, 7],
    "bool": [False, True],
    "float | None": [None, 2.5],
    "int | None": [None, 3],
    "str | None": [None, "monday"],
    "dict[str, str] | None": [None, {"Retry-After": "3"}],
    "FixLike": [
        "",
        "visits, \u00e4",
        build_fix("then: ", run("check", "visits"), UseOption("rows", 3), AskWith("SELECT")),
    ],
    "Iterable[str]": [[], ["visits", "visit", "wards"]],
    "Sequence[str]": [["lo is missing."], ["lo is missing.", "hi is missing."]],
}
NAMED: dict[str, list[Any]] = {"cause": list(CAUSES), "status": [404, 503]}
OPTIONAL = {"siloquent.data.engines.spark", "siloquent.data.sources.spark"}


def subclasses(kind: type) -> Iterator[type]:
    for one in kind.__subclasses__():
        yield one
        yield from subclasses(one)


def every_error() -> list[type[BaseException]]:
    """All exceptions that siloquent's modules define, public or not."""
    for module in pkgutil.walk_packages(siloquent.__path__, "siloquent."):
        if module.name in ("siloquent.pictures", "siloquent.federation.operator"):  # old names, which warn
            continue
        if module.name not in OPTIONAL and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return sorted(
        {one for one in subclasses(BaseException) if one.__module__.split(".")[0] == "siloquent"},
        key=lambda k: k.__name__,
    )


def examples(kind: type[BaseException]) -> Iterator[BaseException]:
    """Errors of ``kind`` with every combination of a few values of each argument."""
    if kind.__init__ in (Exception.__init__, UserWarning.__init__, ValueError.__init__, KeyboardInterrupt.__init__):
        yield kind("what was wrong", 3)
        return
    own = list(inspect.signature(kind).parameters.values())
    choices = [NAMED.get(one.name) or VALUES[str(one.annotation)] for one in own]
    for values in product(*choices):
        given = dict(zip((one.name for one in own), values, strict=True))
        by_place = [given.pop(one.name) for one in own if one.kind is not one.KEYWORD_ONLY]
        yield kind(*by_place, **given)


def told(error: BaseException) -> tuple[object, ...]:
    return type(error), str(error), error.args, vars(error)


ERRORS = every_error()


def test_the_walk_finds_the_whole_tree() -> None:
    assert {SiloquentError, *subclasses(SiloquentError)} <= set(ERRORS)
    assert len(ERRORS) >= 20


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_an_error_is_the_same_after_its_way_through_pickle_and_copy(kind: type[BaseException]) -> None:
    tried = 0
    for error in examples(kind):
        error.add_note("To repeat this at no cost: siloquent ask")
        if isinstance(error, SiloquentError):
            error.detail, error.fix, error.spent = f"schemas/t.toml: {error.detail}", "another fix", "epsilon 1"
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            assert told(pickle.loads(pickle.dumps(error, protocol))) == told(error)  # noqa: S301 - our own bytes
        assert told(copy.copy(error)) == told(error) == told(copy.deepcopy(error))
        tried += 1
    assert tried


def test_a_process_pool_raises_what_its_worker_raised() -> None:
    kinds = [SiloquentError, *subclasses(SiloquentError)]  # others would have the worker import the whole server
    errors = [error for kind in kinds for error in list(examples(kind))[-2:]]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        for error, found in [(error, pool.submit(raised, error).exception()) for error in errors]:
            assert found is not None
            assert told(found)[:3] == told(error)[:3]
            assert {**vars(found), "__notes__": None} == {**vars(error), "__notes__": None}


def test_an_error_without_its_fields_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(PortableError, "__reduce__")
    lost = ProtocolError("peer_missing", role="party-1", step="3")
    with pytest.raises((TypeError, KeyError, AssertionError)):
        assert told(pickle.loads(pickle.dumps(lost))) == told(lost)  # noqa: S301 - our own bytes
