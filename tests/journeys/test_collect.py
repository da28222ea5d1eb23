"""Three telephones, two services, one collector, at the command line; then many telephones, and every refusal."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from journeys.clinic import Done, Person
from journeys.documents import faults
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.collect.spec.collection import compute_plain_digest
from unit.collect.shops import ORDERS, PROFILE, text

Types = Callable[..., Done]
KEY = "00" * 32


@pytest.fixture
def person(tmp_path: Path) -> Person:
    (tmp_path / "shop.toml").write_text(text(PROFILE, ORDERS, epsilon="8", min_reports=100))
    lines = [
        {"user": "u1", "rows": [{"amount": 3, "gift": True}]},
        {"user": "u2", "rows": []},
        {"user": "u3", "rows": [{"amount": 24, "gift": False}] * 5},
    ]
    (tmp_path / "three.jsonl").write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    return Person(tmp_path)


@pytest.fixture
def types(person: Person) -> Types:
    return person.types


@pytest.fixture
def designed(types: Types) -> Done:
    done = types("collect", "design", "shop.toml", "-o", "./shop.json", "--json")
    assert done.status == 0, done
    return done


def fits(done: Done, kind: str) -> dict[str, object]:
    document = done.document
    assert list(faults(document, json_schema(kind))) == []
    return document


@pytest.mark.slow
def test_three_devices_report_and_the_collector_counts(person: Person, types: Types, designed: Done) -> None:
    assert fits(designed, "collect-design")["epsilon"] == "8"
    assert oct((person.folder / "shop.key").stat().st_mode)[-3:] == "600"
    proved = types("collect", "check", "./shop.json", "--json")
    assert (proved.status, fits(proved, "collect-check")["holds"]) == (0, True)
    for name in ("one", "two"):
        made = types("collect", "perturb", "./shop.json", "three.jsonl", "--service", "orders", "-o", f"./{name}.bin",
                     *(("--memory", "shop.sent") if name == "two" else ()))  # fmt: skip
        assert made.status == 0, made
    one, two = ((person.folder / f"{name}.bin").read_bytes() for name in ("one", "two"))
    assert len(one) == 3 * 40
    assert one == two  # remembered: a second draw would cost a second epsilon
    (person.folder / "bad.bin").write_bytes(b"\x07" + one[1:40] + one[:30])
    counted = fits(types("collect", "ingest", "./shop.json", "./one.bin", "./two.bin", "./bad.bin", "--json"),
                   "collect-counters")  # fmt: skip
    counters = counted["counters"]
    assert isinstance(counters, dict)
    assert {code: count for code, count in counters.items() if count} == {
        "accepted": 3, "duplicate": 3, "bad_version": 1, "bad_length": 1,
    }  # fmt: skip
    parquet.write_table(pa.table({"report": [one[:40], one[:39]]}), person.folder / "late.parquet")
    late = types("collect", "ingest", "./shop.json", "./late.parquet", "--json").document["counters"]
    assert (late["duplicate"], late["bad_length"]) == (1, 1)
    few = types("collect", "estimate", "./shop.json", "SELECT COUNT(*) FROM orders")
    assert few.status == 2
    assert "[too_few_reports]" in few.err
    assert "3 users have reported" in types("collect", "show", "./shop.json").out


@pytest.fixture
def many(person: Person, types: Types, designed: Done) -> None:
    random = np.random.default_rng(5)
    rows = {"profile": [], "orders": []}  # type: ignore[var-annotated]
    for user in range(3_000):
        age = int(random.integers(0, 25))
        rows["profile"].append({"user": f"u{user}", "rows": [{"age": age, "region": str(random.choice(list("abc")))}]})
        own = [{"amount": int(random.integers(0, 25)), "gift": bool(random.integers(0, 2))} for _ in range(age % 3)]
        rows["orders"].append({"user": f"u{user}", "rows": own})
    for service, lines in rows.items():
        (person.folder / f"{service}.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
        types("collect", "perturb", "./shop.json", f"{service}.jsonl", "--service", service, "-o", f"./{service}.bin")
    assert types("collect", "ingest", "./shop.json", "./profile.bin", "./orders.bin").status == 0


@pytest.mark.slow
@pytest.mark.usefixtures("many")
def test_many_devices_answer_questions_with_error_bars(person: Person, types: Types) -> None:
    sql = "SELECT region, AVG(amount), COUNT(*) FROM orders JOIN profile USING (user) WHERE age < 20 GROUP BY region"
    document = fits(types("collect", "estimate", "./shop.json", sql, "--json"), "collect-answer")
    assert document["columns"] == ["region", "avg_amount", "avg_amount_error", "avg_amount_low", "avg_amount_high",
                                   "count", "count_error", "count_low", "count_high"]  # fmt: skip
    rows = document["rows"]
    assert isinstance(rows, list)
    assert [row[0] for row in rows] == ["a", "b", "c", "(other)", None]
    assert document["free"] is True
    shown = types("collect", "estimate", "./shop.json", "SELECT age, COUNT(*) FROM profile GROUP BY age", "-o", "a.svg")
    assert "95 % interval" in shown.out
    assert "epsilon 8 for each user over all services together" in shown.out
    assert (person.folder / "a.svg").read_text().startswith("<svg")
    kept = types("collect", "estimate", "./shop.json", "SELECT COUNT(*) FROM profile", "-o", "rows.csv")
    assert kept.status == 0
    assert (person.folder / "rows.csv").read_text().splitlines()[0] == "count,count_error,count_low,count_high"


REFUSED: dict[str, tuple[tuple[str, ...], str, int]] = {
    "no document": (("check", "./shops.json"), "Did you mean 'shop'", 2),
    "no declaration": (("design", "nowhere.toml"), "cannot be read", 2),
    "a document that is there": (("design", "shop.toml", "-o", "./shop.json"), "already exists", 2),
    "no service": (("perturb", "./shop.json", "three.jsonl", "-o", "./x.bin"), "--service NAME", 2),
    "an unknown service": (("perturb", "./shop.json", "three.jsonl", "--service", "order"), "Did you mean 'orders'", 2),
    "no rows": (("perturb", "./shop.json", "x.jsonl", "--service", "orders", "-o", "./x.bin"), "cannot be read", 2),
    "rows that are none": (
        ("perturb", "./shop.json", "shop.toml", "--service", "orders"),
        "Line 1 is not an object",
        2,
    ),
    "no reports": (("ingest", "./shop.json", "./x.bin"), "cannot be read", 2),
    "no SQL": (("estimate", "./shop.json", "how many?"), "Expected SELECT", 2),
    "an unknown attribute": (("estimate", "./shop.json", "SELECT SUM(amuont) FROM orders"), "Did you mean 'amount'", 2),
}


@pytest.mark.usefixtures("designed")
@pytest.mark.parametrize(("words", "said", "status"), REFUSED.values(), ids=REFUSED)
def test_refusals_say_what_to_do(types: Types, words: tuple[str, ...], said: str, status: int) -> None:
    done = types("collect", *words)
    assert said in done.err, done
    assert done.status == status
    assert "Traceback" not in done.err


def test_a_file_without_reports_is_no_success(person: Person, types: Types, designed: Done) -> None:
    for name, content in (("empty.bin", b""), ("notes.bin", b"no report, but words")):
        (person.folder / name).write_bytes(content)
    none = types("collect", "ingest", "./shop.json", "./empty.bin", "./notes.bin", "--json")
    assert (none.status, none.document["code"]) == (2, "request_invalid")
    assert none.document["detail"] == "empty.bin, notes.bin: no reports, so nothing was ingested."


def test_a_design_that_hides_everything_says_so_before_devices_pay(person: Person, types: Types) -> None:
    (person.folder / "faint.toml").write_text(text(PROFILE, epsilon="0.001"))
    said = types("collect", "design", "faint.toml", "-o", "./faint.json").err
    assert "At epsilon 1/1000 even the best answer is off by about" in said
    assert "noise dominates" in said


@pytest.mark.usefixtures("designed")
def test_a_changed_document_is_refused(person: Person, types: Types) -> None:
    path = person.folder / "shop.json"
    plain = json.loads(path.read_text())
    plain["epsilon"] = "80/10"
    path.write_text(json.dumps(plain))
    done = types("collect", "check", "./shop.json")
    assert done.status == 2
    assert "was changed" in done.err


@pytest.mark.slow
@pytest.mark.usefixtures("designed")
def test_reports_of_another_epoch_are_counted_as_such(person: Person, types: Types) -> None:
    os.rename(person.folder / "shop.json", person.folder / "old.json")
    os.rename(person.folder / "shop.key", person.folder / "old.key")
    (person.folder / "shop.toml").write_text(text(PROFILE, ORDERS, epsilon="8", epoch=2))
    assert types("collect", "design", "shop.toml", "-o", "./shop.json").status == 0
    assert types("collect", "perturb", "./old.json", "three.jsonl", "--service", "orders", "-o", "./x.bin").status == 0
    counters = types("collect", "ingest", "./shop.json", "./x.bin", "--json").document["counters"]
    assert (counters["accepted"], counters["wrong_digest"]) == (0, 3)


@pytest.mark.slow
def test_devices_add_what_public_tables_say_and_a_missing_table_is_named(person: Person, types: Types) -> None:
    from unit.collect.test_star import PRODUCTS, SALES

    (person.folder / "star.toml").write_text(text(PRODUCTS, SALES, min_reports=2))
    (person.folder / "sales.jsonl").write_text('{"user": "u1", "rows": [{"amount": 3, "product": "p1"}]}\n')
    (person.folder / "products.jsonl").write_text('{"product": "p1", "country": "IT"}\n')
    assert types("collect", "design", "star.toml", "-o", "./star.json").status == 0
    wanted = types("collect", "perturb", "./star.json", "sales.jsonl", "-o", "./s.bin")
    assert (wanted.status, "--table products=rows.jsonl" in wanted.err) == (2, True)
    for given, said in (("product=products.jsonl", "Did you mean 'products'"), ("products=star.toml", "no rows with")):
        refused = types("collect", "perturb", "./star.json", "sales.jsonl", "--table", given)
        assert (refused.status, said in refused.err) == (2, True)
    made = types(
        "collect", "perturb", "./star.json", "sales.jsonl", "--table", "products=products.jsonl", "-o", "./s.bin"
    )
    assert made.status == 0
    assert len((person.folder / "s.bin").read_bytes()) == 40


@pytest.mark.slow
@pytest.mark.usefixtures("designed")
def test_one_memory_for_a_collection_and_epoch_in_whatever_file_its_document_is(person: Person, types: Types) -> None:
    def perturb(document: str, out: str) -> Done:
        return types("collect", "perturb", document, "three.jsonl", "--service", "orders", "-o", out)

    assert perturb("./shop.json", "./one.bin").status == 0
    (person.folder / "other").mkdir()
    for end in (".json", ".key"):
        (person.folder / "other" / f"copy{end}").write_bytes((person.folder / f"shop{end}").read_bytes())
    assert perturb("./other/copy.json", "./two.bin").status == 0
    assert (person.folder / "one.bin").read_bytes() == (person.folder / "two.bin").read_bytes()
    (person.folder / "second.toml").write_text(text(PROFILE, ORDERS, epsilon="8", min_reports=200))
    for name in ("./second.json", "./other/second.json"):
        assert types("collect", "design", "second.toml", "-o", name).status == 0
        refused = perturb(name, "./x.bin")
        assert (refused.status, "another design of this epoch" in refused.err) == (2, True)
        assert "epoch = 2 in the design" in refused.err
    assert not (person.folder / "x.bin").exists()
    (person.folder / "shop.sent").unlink()  # the account remembers, too
    assert perturb("./shop.json", "./three.bin").status == 0
    assert (person.folder / "one.bin").read_bytes() == (person.folder / "three.bin").read_bytes()


@pytest.mark.slow
@pytest.mark.usefixtures("designed")
def test_a_document_whose_thresholds_reveal_more_than_it_says_gets_no_report(person: Person, types: Types) -> None:
    plain = json.loads((person.folder / "shop.json").read_text())
    plain.pop("digest")
    plain["channels"][1]["layers"][0]["truth"] = str(2**64 - 1)
    (person.folder / "shop.json").write_text(json.dumps({**plain, "digest": compute_plain_digest(plain)}))
    refused = types("collect", "perturb", "./shop.json", "three.jsonl", "--service", "orders", "-o", "./x.bin")
    assert (refused.status, "reveals more than the document's epsilon" in refused.err) == (2, True)
