"""Search from the command line: two owners offer, a catalogue lists, an analyst finds and augments; and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from journeys.clinic import Person
from journeys.documents import faults
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.demo.searching import REQUEST, make_searched, searched_toml

OFFER = ("search", "offer", "air", "--features", "pm25", "--by", "postcode", "--epsilon", "1")
FIND = ("search", "find", "request.toml")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the demo's tables, and offers of three of them in its catalogue."""
    from siloquent.session import create_workspace

    folder = tmp_path_factory.mktemp("search") / "office"
    workspace = create_workspace(folder)
    (folder / "data").mkdir()
    for name, table in make_searched(np.random.default_rng(5)).items():
        pyarrow.parquet.write_table(table, folder / "data" / f"{name}.parquet")
        (workspace.schemas / f"{name}.toml").write_text(searched_toml(name, table.num_rows))
    (folder / "request.toml").write_text(REQUEST)
    person = Person(folder)
    for table, feature in (("air", "pm25"), ("income", "income"), ("trees", "number")):
        words = ("search", "offer", table, "--features", feature, "--by", "postcode", "--epsilon", "1")
        assert person.types(*words, "--key", table, "--yes", "--catalogue", "catalogue").status == 0
    return folder


@pytest.fixture
def office(prepared: Path) -> Person:
    return Person(prepared)


@pytest.mark.slow
def test_the_price_of_an_offer_is_shown_first_and_costs_nothing(office: Person) -> None:
    before = office.spent("air@1")
    document = office.types(*OFFER, "--explain", "--json").document
    assert list(faults(document, json_schema("offer-plan"))) == []
    assert document["keys"] == [{"name": "postcode", "cells": 48, "mean_error": document["keys"][0]["mean_error"]}]
    assert "rho 0.02436 (epsilon 1 on its own)" in office.types(*OFFER, "--explain").out
    refused = office.types(*OFFER)
    assert (refused.status, "standard input is not a terminal" in refused.err) == (2, True)
    assert office.spent("air@1") == before


@pytest.mark.slow
def test_who_names_no_key_is_told_how_offers_and_requests_are_free_the_second_time(office: Person) -> None:
    request = ("search", "find", "lungs", "--target", "score", "--features", "age", "--by", "postcode")
    for words, table in ((OFFER, "air"), ((*request, "--epsilon", "1", "-o", "found.json"), "lungs")):
        once = office.types(*words, "--yes")
        paid = office.spent(f"{table}@1")
        again = office.types(*once.again)
        assert (again.status, office.spent(f"{table}@1")) == (0, paid), again
    assert "To repeat this at no cost" not in office.types(*request).err  # local scoring costs nothing anyway


@pytest.mark.slow
def test_what_cannot_work_is_said_before_it_is_paid_for(office: Person) -> None:
    before = office.spent("air@1")
    faint = (*OFFER[:8], "0.01")
    assert "hides what tells them apart" in " ".join(office.types(*faint, "--explain").out.split())
    assert "hides what tells them apart" in office.types(*faint, "--explain", "--json").document["notes"][0]
    refused = office.types(*faint)
    assert ("hides what tells them apart" in " ".join(refused.err.split()), refused.status) == (True, 2)
    assert office.spent("air@1") == before


@pytest.mark.slow
def test_an_offer_under_its_key_is_free_the_second_time_and_verifies(office: Person) -> None:
    before = office.spent("air@1")
    again = office.types(*OFFER, "--key", "air", "--yes", "--json").document
    assert list(faults(again, json_schema("offer"))) == []
    assert office.spent("air@1") == before
    release = Path(again["folder"]).name
    assert office.types("verify", release).status == 0
    assert office.types("release", "show", release).status == 0
    assert office.types("search", "catalogue", "add", "catalogue", release).status == 0
    assert len(office.types("search", "catalogue", "list", "--json").document["offers"]) == 3


def test_the_catalogue_says_what_fits_a_table(office: Person) -> None:
    document = office.types("search", "catalogue", "list", "--for", "lungs", "--json").document
    assert list(faults(document, json_schema("catalogue"))) == []
    assert [(one["own_key"], one["overlap"]) for one in document["matching_keys"]] == [("postcode", 1.0)] * 3


@pytest.mark.slow
def test_what_explains_the_target_is_found_for_nothing_and_joins_ones_own_rows(office: Person) -> None:
    before = office.head()
    done = office.types(*FIND, "-o", "plan.json", "--json")
    assert done.status == 0, done
    document = done.document
    assert list(faults(document, json_schema("found"))) == []
    # The air's gain is some .35 and the income's some .13 with the noise of one release: trees have no chance.
    assert [one["table"] for one in document["chosen"]] == ["air", "income"]
    assert document["base_r2"] < 0.4 < document["r2"]
    assert office.head() == before
    written = office.types("search", "augment", "plan.json", "-o", "augmented.parquet", "--json").document
    assert list(faults(written, json_schema("augmented"))) == []
    rows = pyarrow.parquet.read_table(office.folder / "augmented.parquet")
    assert rows.num_rows == 9_600
    assert {"score", "air.pm25", "air.pm25 error", "income.income"} <= set(rows.column_names)
    taken = office.types("search", "augment", "plan.json", "-o", "augmented.parquet")
    assert (taken.status, "already exists" in taken.err) == (2, True)


@pytest.mark.slow
def test_platform_scoring_has_a_price_and_a_key(office: Person) -> None:
    words = ("search", "find", "lungs", "--target", "score", "--features", "age", "--by", "postcode", "--epsilon", "1")
    assert "standard input is not a terminal" in office.types(*words).err
    assert office.types(*words, "--explain", "--json").document["schema"] == "siloquent/offer-plan/1"
    found = office.types(*words, "--key", "once", "--yes", "--json").document
    paid = office.spent("lungs@1")
    assert found["chosen"][0]["table"] == "air"
    assert "Differential privacy" in found["guarantee"]
    again = office.types(*words, "--key", "once", "--yes", "--json").document
    assert again == found
    assert office.spent("lungs@1") == paid


def test_local_scoring_and_augmenting_are_the_owners_alone(office: Person) -> None:
    assert office.types("--analyst", "ana", *FIND).status == 8
    assert office.types("--analyst", "ana", "search", "augment", "plan.json", "-o", "x.csv").status == 8


REFUSED: dict[str, tuple[tuple[str, ...], str, int]] = {
    "an unknown table": (("search", "offer", "ear", *OFFER[3:], "--yes"), "Did you mean 'air'", 2),
    "an unknown feature": ((*OFFER[:4], "pm2", *OFFER[5:], "--yes"), "Did you mean 'pm25'", 2),
    "an unknown key": ((*OFFER[:6], "postcod", *OFFER[7:], "--yes"), "Did you mean 'postcode'", 2),
    "no price": ((*OFFER[:7], "--yes"), "--epsilon or --rho", 2),
    "no features": (("search", "offer", "air", "--epsilon", "1"), "needs features", 2),
    "more than is left": ((*OFFER[:8], "50", "--yes"), "has", 3),
    "a price above the limit": ((*OFFER, "--max-cost", "0.000001"), "more than the 0.000001", 2),
    "not contain a catalogue": ((*FIND, "--catalogue", "nowhere"), "not contain a catalogue", 2),
    "no request": (("search", "find", "nowhere.toml"), "cannot be read", 2),
    "no target": (("search", "find", "lungs", "--by", "postcode"), "needs a target", 2),
    "no key": (("search", "find", "lungs", "--target", "score"), "Joins need a key", 2),
    "no common key": (("search", "find", "lungs", "--target", "score", "--by", "smoker"), "shares half", 2),
    "no plan": (("search", "augment", "request.toml", "-o", "x.csv"), "not a search plan", 2),
    "augmented rows without a place": (("search", "augment", "request.toml"), "need an output file", 2),
    "another format": (("search", "augment", "plan.json", "-o", "rows.xls"), "parquet", 2),
    "nothing to explain": ((*FIND, "--explain"), "no price to explain", 2),
}


@pytest.mark.parametrize(("words", "said", "status"), REFUSED.values(), ids=REFUSED)
def test_refusals_say_what_to_do_and_spend_nothing(
    office: Person, words: tuple[str, ...], said: str, status: int
) -> None:
    (office.folder / "plan.json").exists() or (office.folder / "plan.json").write_text(
        '{"format": 1, "table": "lungs", "steps": []}'
    )
    before = [office.spent(f"{table}@1") for table in ("air", "income")]
    done = office.types(*words)
    assert said in done.err, done
    assert done.status == status
    assert [office.spent(f"{table}@1") for table in ("air", "income")] == before


def test_an_edited_offer_is_refused(office: Person, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(office.folder / "catalogue", tmp_path / "edited")
    offer = next(path for path in sorted((tmp_path / "edited").iterdir()))
    file = offer / "moments.npz"
    file.write_bytes(file.read_bytes()[:-9])
    done = office.types(*FIND, "--catalogue", str(tmp_path / "edited"))
    assert (done.status, "changed after its release" in done.err) == (2, True)
    manifest = offer / "manifest.json"
    plain = json.loads(manifest.read_text())
    plain["task"] = "explore"
    manifest.write_text(json.dumps(plain))
    assert "contains no offer" in office.types(*FIND, "--catalogue", str(tmp_path / "edited")).err
