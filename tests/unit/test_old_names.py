"""Names of 0.1 work for one version more, and say what they are called now."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from siloquent import ledger, privacy, sketch
from siloquent.deprecation import keep_old_methods, keep_old_names

OLD = {
    "explore": {"Asked": "HistoryEntry", "CompositeExplanation": "Explanation", "release_of": "write_answer_release"},
    "ledger": {"Stored": "SettledAnswer", "Verdict": "LedgerVerdict"},
    "privacy": {"limit_of": "build_limit", "epsilon_of_zcdp": "convert_zcdp_to_epsilon"},
    "privacy.noise": {"bernoulli": "draw_bernoulli", "noise_chain": "draw_noise_chain"},
    "profile": {"Column": "ProfileColumn", "spec_from_plain": "parse_spec", "statement": "describe_leakage"},
    "search": {"Found": "SearchResult", "spec_from_plain": "parse_spec"},
    "sketch": {"Estimate": "DensityEstimate", "spec_from_plain": "parse_spec"},
    "synth": {"spec_from_plain": "parse_spec"},
    "share": {"agreement_of": "build_agreement", "spec_from_plain": "parse_spec"},
    "collect": {"Answer": "CollectAnswer", "Held": "UserMemory", "to_bytes": "encode_batch"},
    "data": {"Limits": "ReadLimits"},
    "schema": {"Budget": "TableBudget"},
    "releases": {"release_folder": "get_release_folder"},
}


@pytest.mark.parametrize(("package", "old", "new"), [(p, o, n) for p, names in OLD.items() for o, n in names.items()])
def test_an_old_name_gives_what_the_new_one_does_and_says_so(package: str, old: str, new: str) -> None:
    module = importlib.import_module(f"siloquent.{package}")
    with pytest.warns(DeprecationWarning, match=f"siloquent.{package}.{old} is now siloquent.{package}.{new};"):
        found = getattr(module, old)
    assert found is getattr(module, new)


def test_a_name_that_never_was_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sketch.nothing  # type: ignore[attr-defined] # noqa: B018


def test_an_old_method_calls_the_new_one() -> None:
    book = ledger.MemoryLedger()
    limit = privacy.build_limit("pure", "1")
    book.open_account("visits@1", limit=limit, accountant="pure", unit="row", adjacency="add-remove")
    with pytest.warns(DeprecationWarning, match="BaseLedger.account is now BaseLedger.get_account;"):
        assert book.account("visits@1") == book.get_account("visits@1")
    with pytest.warns(DeprecationWarning, match="Account.left_exact is now Account.compute_remaining;"):
        assert book.get_account("visits@1").left_exact() == book.get_account("visits@1").compute_remaining()


def test_a_method_of_an_old_name_that_is_not_called_says_how_to_call_it() -> None:
    class Session:
        def get_remaining(self, name: str) -> str:
            return f"what is left of {name}"

    keep_old_methods(Session, {"left": "get_remaining"})
    session = Session()
    shown = "<Session.left is a method, called get_remaining now. Call it: get_remaining(NAME)>"
    assert repr(session.left) == str(session.left) == shown  # type: ignore[attr-defined]
    with pytest.warns(DeprecationWarning, match="Session.left is now Session.get_remaining;"):
        assert session.left("visits") == "what is left of visits"  # type: ignore[attr-defined]


def test_the_old_package_of_charts_is_there() -> None:
    program = (
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as told:\n"
        "    warnings.simplefilter('always')\n"
        "    from siloquent.pictures import Bars, Picture, Words\n"
        "import siloquent.charts as now\n"
        "assert (Bars, Picture, Words) == (now.Bars, now.Chart, now.Labels)\n"
        "assert any('siloquent.pictures is now siloquent.charts;' in str(one.message) for one in told), told\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_old_module_of_the_operator_is_there() -> None:
    program = (
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as told:\n"
        "    warnings.simplefilter('always')\n"
        "    from siloquent.federation import operator\n"
        "from siloquent.federation.identity import operator as now\n"
        "assert all(getattr(operator, name) is getattr(now, name) for name in operator.__all__)\n"
        "assert any('is now siloquent.federation.identity.operator;' in str(one.message) for one in told), told\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_old_name_without_a_new_one_would_be_noticed() -> None:
    class Kind:
        pass

    keep_old_methods(Kind, {"old": "new"})
    with pytest.warns(DeprecationWarning, match="is now"), pytest.raises(AttributeError, match="new"):
        Kind().old()  # type: ignore[attr-defined]
    with pytest.warns(DeprecationWarning, match="is now"), pytest.raises(AttributeError, match="gone"):
        keep_old_names("siloquent.sketch", {"old": "gone"})("old")


def test_every_old_name_has_a_new_one() -> None:
    """All tables, also those of names that the list above leaves out."""
    program = (
        "import importlib, warnings, siloquent.deprecation as d\n"
        "names, methods, keep, keep_methods = [], [], d.keep_old_names, d.keep_old_methods\n"
        "d.keep_old_names = lambda package, old: (names.append((package, old)), keep(package, old))[1]\n"
        "d.keep_old_methods = lambda kind, old: methods.append((kind, old))\n"
        "for one in 'explore ledger privacy privacy.noise profile search sketch synth share collect data schema "
        "releases remote api'.split(): importlib.import_module('siloquent.' + one)\n"
        "assert len(names) == 13 and len(methods) > 15, (len(names), len(methods))\n"
        "for package, old in names:\n"
        "    for new in old.values(): getattr(importlib.import_module(package), new)\n"
        "for kind, old in methods:\n"
        "    for name, new in old.items():\n"
        "        assert callable(getattr(kind, new)), (kind, new)\n"
        "        assert not hasattr(kind, name), (kind, name)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
