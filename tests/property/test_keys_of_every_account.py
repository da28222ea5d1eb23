"""What was charged under a key can be had: in every kind of account, after every kind of change of the table file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import siloquent
from journeys.clinic import TOML
from property.test_declarations_change import clinic
from property.test_keys_outlive_changes import KEY, Request, Stopped, asked
from siloquent.api import Session
from siloquent.errors import KeyReused, SchemaError, SiloquentError, UnknownName
from siloquent.ledger.base_ledger import BaseLedger
from siloquent.privacy.budget import Budget
from siloquent.search import KeyOf, OfferSpec
from siloquent.share import ShareSpec
from siloquent.sketch import PStable, SketchSpec
from siloquent.sketch.plan.moments import MomentsSpec
from siloquent.synth import SynthSpec
from unit.linked_shop import UNIT, write_shop

SMALL = Budget(epsilon="0.05")  # in zCDP it is as much as the account's own delta makes of it
GROUPS = "SELECT ward, COUNT(*), AVG(age) FROM visits GROUP BY ward"
BOUNDS = '"age", type = "integer", lo = 0, hi = 120'


@dataclass(frozen=True)
class AccountKind:
    """A table file's promise and budget, and who asks."""

    budget: str
    less: str = "3"
    unit: str = 'unit = { kind = "row" }'
    adjacency: str = "add-remove"
    analyst: str | None = None

    def write(self, text: str) -> str:
        text = re.sub(r"(?s)\[budget\].*", f'[budget]\n{self.budget}\nanalysts = {{ ana = "1" }}\n', text)
        text = text.replace('adjacency = "add-remove"', f'adjacency = "{self.adjacency}"')
        text = text.replace('unit = { kind = "row" }', self.unit)
        return text.replace("[table]", '[defaults]\nerror = "20 PERCENT"\n\n[table]')


ZCDP = 'accountant = "zcdp"\nepsilon = "4"\ndelta = "1e-6"'
USER = 'unit = { kind = "user", column = "patient", max_rows = 2 }'
KINDS = {
    "pure": AccountKind('accountant = "pure"\nepsilon = "10"', "9"),
    "zcdp": AccountKind(ZCDP),
    "rho": AccountKind('accountant = "zcdp"\nrho = "0.5"\ndelta = "1e-6"', "0.4"),
    "events": AccountKind(f'{ZCDP}\ndelta_events = "4e-7"'),
    "analyst": AccountKind(ZCDP, analyst="ana"),
    "replace-one": AccountKind(ZCDP, adjacency="replace-one"),
    "user": AccountKind(ZCDP, unit=USER),
    "pure user": AccountKind('accountant = "pure"\nepsilon = "10"', "9", unit=USER, analyst="ana"),
}


def synthesize(session: Session) -> object:
    spec = SynthSpec("visits", Budget(epsilon="0.2"), columns=("age", "ward"), quality="fast", seed=3, rows=50)
    return session.synth.synthesize(spec, key=KEY).rows.to_pydict()


def sketch(session: Session) -> object:
    spec = SketchSpec("visits", ("age", "cost"), PStable(2, 0.5), scale="range", rows=32, budget=SMALL)
    return session.sketch.build(spec, key=KEY).counters.tolist()


def fit(session: Session) -> object:
    return bool(session.sketch.regress(MomentsSpec("visits", ("age",), "cost", SMALL), key=KEY))


def offer(session: Session) -> object:
    spec = OfferSpec("visits", ("cost",), (KeyOf("ward"),), budget=SMALL)
    return bool(session.search.offer(spec, key=KEY))


def share(session: Session) -> object:
    spec = ShareSpec("visits", label="ward", features=("age",), budget=SMALL)
    return bool(session.share.release(spec, key=KEY))


REQUESTS: dict[str, Request] = {
    "budget": asked("SELECT COUNT(*) FROM visits BUDGET 0.05 EPSILON"),
    "budget of groups": asked(f"{GROUPS} BUDGET 0.1 EPSILON"),
    "budget and choice": asked(f"{GROUPS} HAVING COUNT(*) > 500 BUDGET 0.1 EPSILON"),
    "quantiles": asked("SELECT QUANTILE(age, 0.25), QUANTILE(age, 0.75) FROM visits BUDGET 0.1 EPSILON"),
    "two steps": asked("SELECT ward, AVG(age) FROM visits GROUP BY ward ERROR 60"),
    "percent": asked("SELECT COUNT(*) FROM visits WHERE age > 40 ERROR 20 PERCENT"),
    "default": asked("SELECT SUM(age) FROM visits"),
    "synth": synthesize,
    "sketch": sketch,
    "moments": fit,
    "offer": offer,
    "share": share,
}
Edit = tuple[str, str]
FREE: dict[str, Edit] = {
    "more epsilon": (r'(?m)^(epsilon|rho) = "([\d.]+)"', r'\1 = "2\2"'),
    "less epsilon": (r'(?m)^(epsilon|rho) = ".*"', r'\1 = "LESS"'),
    "more delta": (r"(?m)^delta = .*", 'delta = "5e-5"'),
    "less delta": (r"(?m)^delta = .*", 'delta = "5e-7"'),
    "other events": (r"(?m)^delta_events = .*", 'delta_events = "1e-8"'),
    "no events": (r"(?m)^delta_events = .*\n", ""),
    "shares": (r'ana = "1"', 'ana = "0.9", cy = "0.2"'),
    "reuse": (r"\[budget\]", '[budget]\nreuse = "any"'),
    "no reuse": (r"\[budget\]", '[budget]\nreuse = "none"'),
    "sharing": (r"\[budget\]", '[budget]\nsharing = "own"'),
    "more rows": (r"size_hint = 3000", "size_hint = 40000"),
    "fewer rows": (r"size_hint = 3000", "size_hint = 300"),
    "defaults": (r'error = "20 PERCENT"', 'error = "15 PERCENT"\nconfidence = "0.9"'),
    "labels": (r'"icu"\], null', '"icu"], labels = { icu = "intensive care" }, null'),
    "comment": (r"\[table\]", "# rows of one year\n[table]"),
}
"""Changes after which every request in every account means what it did."""
RESTORED: dict[str, Edit] = {
    "bounds": (re.escape(BOUNDS), BOUNDS.replace("120", "130")),
    "narrower bounds": (re.escape(BOUNDS), BOUNDS.replace("120", "60")),
    "bins": (r"width = 20", "width = 10"),
    "no bins": (r", bins = \{ width = 20 \}", ""),
    "fewer values": (r'"A", "B", "=1\+1", "icu"', '"A", "icu"'),
    "other values": (r'"A", "B", "=1\+1", "icu"', '"icu", "B", "A", "C", "=1+1"'),
    "empty cells": (r'("age".*?)null = "drop"', r'\1null = "cell"'),
    "read as a value": (r'("ward".*?)null = "drop"', r'\1null = { value = "B" }'),
    "outside": (r'("age".*?)outside = "clamp"', r'\1outside = "drop"'),
    "grid": (r"grid = 0.01", "grid = 0.5"),
    "another column's bounds": (r"max_bytes = 100", "max_bytes = 90"),
}
"""Changes after which some requests mean something else: they are finished, and found again, as declared then."""
OTHER: dict[str, Edit] = {
    "rule": (
        r"(?m)^attribute = \[",
        'constraint = [{ kind = "denial", not = "t1.age > t2.age and t1.cost < t2.cost", hard = false }]\n\\g<0>',
    ),
    "version": (r'name = "visits"', 'name = "visits"\nversion = 2'),
    "source": (r"data/visits.parquet", "data/./visits.parquet"),
    "a column less": (r'(?m)^  \{ name = "age".*\n', ""),
    "a column of another type": (
        r'"cost", type = "real", lo = 0, hi = 1000, grid = 0.01',
        '"cost", type = "integer", lo = 0, hi = 1000',
    ),
}
"""Changes after which some requests cannot be finished: a key is refused, and fits once the file is put back."""


@dataclass(frozen=True)
class Case:
    kind: str
    request: str
    changes: tuple[str, ...]
    is_settled: bool

    @property
    def analyst(self) -> str | None:
        return KINDS[self.kind].analyst

    def open(self, folder: Path) -> Session:
        return siloquent.open(folder, analyst=self.analyst)

    def run(self, folder: Path) -> object:
        """What the request gives, and what the ledger keeps of it."""
        with self.open(folder) as session:
            given = REQUESTS[self.request](session)
            return given, [one.payload for one in session.ledger.iter_answers("visits@1")]


def edit(folder: Path, text: str) -> None:
    (folder / "schemas" / "visits.toml").write_text(text)
    with siloquent.open(folder) as session:
        session.set_budget("visits")


def stop_before_settling(case: Case, folder: Path) -> None:
    def settle(*_: object, **more: object) -> None:
        raise Stopped

    with patch.object(BaseLedger, "settle", settle), pytest.raises(Stopped):
        case.run(folder)


def list_charged(folder: Path) -> tuple[int, int, int]:
    """What was spent, its delta, and the number of reservations."""
    with siloquent.open(folder) as session:
        (account,) = [one for one in session.ledger.list_accounts() if one.parent is None]
        reserved = sum(one.kind == "reserve" for one in session.ledger.iter_entries())
        assert session.ledger.verify().ok
        return account.spent.amount, account.spent.delta, reserved


def apply_changes(text: str, case: Case) -> str:
    for name in case.changes:
        pattern, new = (FREE | RESTORED | OTHER)[name]
        text = re.sub(pattern, new.replace("LESS", KINDS[case.kind].less), text, count=1)
    return text


def find_refusal(case: Case, folder: Path) -> SiloquentError | None:
    try:
        case.run(folder)
    except (KeyReused, UnknownName, SchemaError) as refused:
        return refused
    return None


def check(case: Case, place: str) -> None:
    """Charge, change the file, and ask again: nothing more is charged, and the answer is there in the end."""
    folder = clinic(place, KINDS[case.kind].write(TOML))
    before: object = None
    if case.is_settled:
        before = case.run(folder)
    else:
        stop_before_settling(case, folder)
    charged = list_charged(folder)
    text = (folder / "schemas" / "visits.toml").read_text()
    edit(folder, apply_changes(text, case))
    refused = find_refusal(case, folder)
    if refused is not None:
        assert any(one in OTHER for one in case.changes), f"no request is declared otherwise: {refused}"
        assert list_charged(folder) == charged, "a refusal is free"
        assert "declar" in refused.fix or not isinstance(refused, KeyReused)
        edit(folder, text)
    after = case.run(folder)
    has_second_step = case.request == "two steps" or "choice" in case.request
    if case.is_settled:
        assert after == before
    if case.is_settled or not has_second_step:
        now = list_charged(folder)
        assert now[0] <= charged[0]
        assert now[1:] == charged[1:]
    settled = list_charged(folder)
    assert case.run(folder) == after
    assert list_charged(folder) == settled


PAIRS = [(kind, change) for kind in KINDS for change in FREE | RESTORED | OTHER]


@pytest.mark.parametrize(("kind", "change"), PAIRS)
def test_every_change_in_every_account_leaves_what_was_charged(kind: str, change: str, tmp_path: Path) -> None:
    """Requests take turns, so that each meets each change and each account."""
    nth = PAIRS.index((kind, change))
    names = list(REQUESTS)
    # More changes than requests: the second stride lets an account meet all of them.
    check(Case(kind, names[nth % len(names)], (change,), is_settled=False), str(tmp_path / "open"))
    check(Case(kind, names[(5 * nth + 1) % len(names)], (change,), is_settled=True), str(tmp_path / "settled"))


OF_DELTA = [(kind, f"{how} delta") for kind in ("zcdp", "events", "rho", "analyst", "user") for how in ("more", "less")]
OF_DELTA += [("events", "other events"), ("events", "no events")]


@pytest.mark.parametrize(("kind", "change"), OF_DELTA)
@pytest.mark.parametrize("request_name", ["budget", "budget of groups", "budget and choice", "offer", "share", "synth"])
def test_an_open_budget_in_epsilon_is_finished_at_the_delta_of_then(
    kind: str, change: str, request_name: str, tmp_path: Path
) -> None:
    check(Case(kind, request_name, (change,), is_settled=False), str(tmp_path))


@settings(max_examples=25, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(
    kind=st.sampled_from(list(KINDS)),
    request=st.sampled_from(list(REQUESTS)),
    changes=st.lists(
        st.sampled_from([*FREE, *RESTORED, *OTHER]), min_size=1, max_size=4, unique_by=lambda one: one.split()[-1]
    ).map(tuple),
    is_settled=st.booleans(),
)
def test_changes_together_leave_what_was_charged(
    kind: str, request: str, changes: tuple[str, ...], is_settled: bool
) -> None:
    with TemporaryDirectory() as place:
        check(Case(kind, request, changes, is_settled), place)


@pytest.mark.parametrize("is_settled", [False, True])
@pytest.mark.parametrize("kind", ["zcdp", "analyst"])
def test_a_release_of_what_was_charged_at_another_delta_is_verified(
    kind: str, is_settled: bool, tmp_path: Path
) -> None:
    case = Case(kind, "budget of groups", ("less delta",), is_settled)
    folder = clinic(str(tmp_path), KINDS[kind].write(TOML))
    if is_settled:
        case.run(folder)
    else:
        stop_before_settling(case, folder)
    edit(folder, apply_changes((folder / "schemas" / "visits.toml").read_text(), case))
    with case.open(folder) as session:
        answer = session.ask(f"{GROUPS} BUDGET 0.1 EPSILON", key=KEY)
        assert session.verify(session.save(answer)).compared
        assert "0.0000005" in str(answer.guarantee.describe()), "today's delta"


def test_a_charge_of_tables_that_share_a_budget_is_finished_at_the_delta_of_then(tmp_path: Path) -> None:
    folder, question = write_shop(tmp_path / "w"), "SELECT COUNT(*) FROM l BUDGET 0.1 EPSILON"
    file = folder / "units" / "customer.toml"
    file.write_text(UNIT.replace('"pure"\nepsilon = "100000"', '"zcdp"\nepsilon = "1"\ndelta = "1e-6"'))

    def settle(*_: object, **more: object) -> None:
        raise Stopped

    with siloquent.open(folder) as session, patch.object(BaseLedger, "settle", settle), pytest.raises(Stopped):
        session.ask(question, key=KEY)
    file.write_text(file.read_text().replace("1e-6", "1e-8"))
    with siloquent.open(folder) as session:
        session.set_budget("l")
        spent = session.get_account("l").spent
        assert session.ask(question, key=KEY).rows
        assert session.get_account("l").spent == spent
        assert session.ledger.verify().ok
