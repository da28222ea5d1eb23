"""A sketch from the command line: price, build, free questions, pictures, sums, and what is refused."""

from __future__ import annotations

import json
import math
import re
import shlex
from pathlib import Path

import pytest

from journeys.clinic import TOML, Person, Types, write_source
from journeys.documents import faults
from siloquent.cli.workspace.document_kinds import json_schema
from siloquent.errors import UnknownName
from siloquent.session import create_workspace
from siloquent.sketch import load_sketch

BUILD = (
    "sketch",
    "build",
    "visits",
    "--features",
    "age,cost",
    "--bandwidth",
    "0.3",
    "--epsilon",
    "0.5",
    "--rows",
    "256",
)
POINTS = "age,cost,who\n50,400,a\n99,900,b\n-5,0,c\n"


def spent(owner: Person) -> int:
    """What the table's account has spent; nothing where it was never opened."""
    try:
        return owner.spent()
    except UnknownName:
        return 0


@pytest.fixture
def points(owner: Person) -> Path:
    path = owner.folder / "points.csv"
    path.write_text(POINTS)
    return path


def test_the_price_is_shown_first_and_costs_nothing(owner: Person, types: Types) -> None:
    said = types("sketch", "plan", *BUILD[2:])
    assert said.status == 0
    for words in ("rho 0.0", "epsilon 0.5", "not read; nothing was spent", "typical error", "256 rows"):
        assert words in said.out
    document = types("sketch", "plan", *BUILD[2:], "--json").document
    assert list(faults(document, json_schema("sketch-plan"))) == []
    assert spent(owner) == 0


def test_without_a_yes_nothing_is_built(owner: Person, types: Types) -> None:
    said = types(*BUILD)
    assert said.status == 2
    assert "standard input is not a terminal" in said.err
    assert spent(owner) == 0


@pytest.mark.slow
def test_build_ask_map_and_show(owner: Person, types: Types, points: Path) -> None:
    built = types(*BUILD, "--label", "ward", "--yes", "-o", "map", "--json")
    assert built.status == 0, built
    assert list(faults(built.document, json_schema("sketch"))) == []
    paid = owner.spent()
    asked = types("sketch", "ask", "map", "--density", "points.csv", "--json").document
    assert list(faults(asked, json_schema("sketch-answer"))) == []
    assert asked["columns"] == ["age", "cost", "value", "error", "low", "high", "outside"]
    assert [row[-1] for row in asked["rows"]] == [False, False, True]
    assert asked["rows"][0][2] > asked["rows"][2][2]
    assert types("sketch", "ask", "map", "--classify", "points.csv").status == 0
    assert types("sketch", "ask", "map", "--classify", "points.csv", "--rule", "map").status == 0
    odd = types("sketch", "ask", "map", "--classify", "points.csv", "--priors", "0.9")
    assert (odd.status, "--priors 0." in odd.err) == (2, True)
    assert types("sketch", "ask", "map", "--anomaly", "points.csv", "--share", "0.05").status == 0
    usual = types("sketch", "ask", "map", "--anomaly", "points.csv", "--threshold", "-1", "--json").document
    assert [row[2] for row in usual["rows"]] == [False] * 3  # no density is as low as that
    assert usual["notes"] == ["unusual: surely below a density of -1.00, as a share of all records"]
    assert len(types("sketch", "ask", "map", "--sample", "20", "--json").document["rows"]) == 20
    assert types("sketch", "ask", "map", "--modes", "2").status == 0
    drawn = types("sketch", "ask", "map", "--map", "age,cost", "-o", "map.svg")
    assert "across: age (0 to 120); up: cost (0 to 1000)" in drawn.out
    text = (owner.folder / "map.svg").read_text()
    assert text.startswith("<svg")
    assert ">Density over age and cost</title>" in text
    line = types("sketch", "ask", "map", "--map", "age", "-o", "age.svg")
    assert "across: age (0 to 120); up: records near" in line.out
    assert "with their 95 % intervals" in (owner.folder / "age.svg").read_text()
    picture = types("sketch", "ask", "map", "--map", "age", "--json").document
    assert list(faults(picture, json_schema("sketch-map"))) == []
    assert "Differential privacy for one row" in types("sketch", "show", "map").out
    assert types("verify", "map").status == 0
    assert owner.spent() == paid


def test_a_linear_model_is_asked_of_a_surrogate_loss(owner: Person, types: Types) -> None:
    built = types(*BUILD, "--kernel", "surrogate", "--bandwidth", "2", "--yes", "-o", "line", "--json").document
    assert built["kernel"] == {"kind": "surrogate", "bits": 2}
    model = types("sketch", "ask", "line", "--regress", "cost", "--json").document
    assert list(faults(model, json_schema("sketch-answer"))) == []
    assert model["columns"] == ["cost is the sum of", "times"]
    assert [row[0] for row in model["rows"]] == ["age", "constant"]
    assert "answers only Regress" in types("sketch", "ask", "line", "--modes", "2").err
    assert "no feature 'price'" in types("sketch", "ask", "line", "--regress", "price").err


def test_a_key_makes_it_free_the_second_time(owner: Person, types: Types) -> None:
    one = types(*BUILD, "--yes", "--key", "k", "--json").document
    paid = owner.spent()
    two = types(*BUILD, "--yes", "--key", "k", "--json").document
    assert (one["id"], one["records"]) == (two["id"], two["records"])
    assert owner.spent() == paid
    assert types("sketch", "show", one["id"]).status == 0
    assert types("release", "list").out.count("sketch visits") == 1
    assert types("release", "show", one["id"]).status == 0


def test_who_names_no_key_is_told_how_it_is_free_the_second_time(owner: Person, types: Types) -> None:
    once = types(*BUILD, "--yes", "-o", "once")
    paid, shown = owner.spent(), types("sketch", "show", "once").out
    again = types(*once.again)
    assert (again.status, owner.spent(), types("sketch", "show", "once").out) == (0, paid, shown)
    assert "To repeat this at no cost" not in again.err  # nothing was paid, and who asked knows the key
    assert "Again" not in types(*BUILD, "--yes", "--quiet", "-o", "quiet").err


def test_numbers_of_records_are_shown_with_their_own_noise(owner: Person, types: Types) -> None:
    assert types(*BUILD, "--yes", "-o", "map").status == 0
    made = load_sketch(owner.folder / "releases" / "map")
    assert made.sizes is not None
    found = re.search(r"all +([\d,]+) \+- ([\d,.]+)", types("sketch", "show", "map").out)
    assert found is not None
    shown, deviation = (float(number.replace(",", "")) for number in found.groups())
    assert shown == made.sizes[0]
    assert deviation == pytest.approx(math.sqrt(made.size_variance), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("output", ["./here", "among"])
def test_the_next_command_after_a_build_can_be_pasted(owner: Person, output: str) -> None:
    elsewhere = Person(owner.folder.parent)
    built = elsewhere.types("--workspace", "clinic", *BUILD, "--yes", "-o", output)
    line = next(said for said in built.err.splitlines() if said.startswith("Next: "))
    assert line == f"Next: siloquent --workspace clinic sketch ask {output} --modes 3"
    asked = elsewhere.types(*shlex.split(line.removeprefix("Next: siloquent ")))
    assert asked.status == 0, asked.err


def test_sketches_of_one_plan_are_added_up(owner: Person, types: Types) -> None:
    assert types("sketch", "plan", *BUILD[2:], "-o", "plan.json").status == 0
    other = create_workspace(owner.folder / "river")
    (other.schemas / "visits.toml").write_text(TOML.replace("SOURCE", write_source(other.folder, "csv")))
    built = [*BUILD, "--plan", "plan.json", "--yes", "-o"]
    assert types(*built, "a").status == 0
    assert types("--workspace", "river", *built, "./b").status == 0
    merged = types("sketch", "merge", "a", "./b", "-o", "all", "--json").document
    assert len(merged["receipts"]) == 2
    assert "A sum of 2 sketches" in merged["guarantee"]
    for receipt in merged["receipts"]:
        assert f"of ledger {receipt['ledger'][:12]}: Differential privacy for one row" in merged["guarantee"]
    for place in ((), ("--workspace", "river")):  # each silo's ledger confirms its own part
        assert "only file hashes and the receipt" in types(*place, "verify", str(owner.folder / "releases/all")).out
    assert types(*built, "again").status == 0
    assert "of one table, visits@1" in types("sketch", "merge", "a", "again", "-o", "both").err
    twice = types("sketch", "merge", "a", "a", "-o", "twice")
    assert twice.status == 2
    assert "named twice" in twice.err
    assert types(*BUILD, "--yes", "-o", "c").status == 0
    assert "different hash plans" in types("sketch", "merge", "a", "c", "-o", "odd").err


def test_a_file_describes_a_sketch(owner: Person, types: Types) -> None:
    (owner.folder / "map.toml").write_text(
        'table = "visits"\nfeatures = ["age", "cost"]\nscale = "range"\nrows = 64\n'
        'kernel = { kind = "p-stable", order = 2, bandwidth = 0.3 }\nbudget = { epsilon = "0.5" }\n'
    )
    assert types("sketch", "build", "map.toml", "--yes").status == 0
    (owner.folder / "map.toml").write_text('table = "visits"\nfeature = ["age"]\n')
    said = types("sketch", "plan", "map.toml")
    assert said.status == 2
    assert "A sketch has no 'feature'" in said.err


REFUSED: dict[str, tuple[tuple[str, ...], str, int]] = {
    "an unknown table": ((*BUILD[:2], "visit", *BUILD[3:], "--yes"), "Did you mean 'visits'", 2),
    "an unknown feature": ((*BUILD[:4], "agee", *BUILD[5:], "--yes"), "Did you mean 'age'", 2),
    "a feature unlike any": ((*BUILD[:4], "zzz", *BUILD[5:], "--yes"), "Fix: siloquent show visits\n", 2),
    "an unknown kernel": ((*BUILD, "--kernel", "p3", "--yes"), "No kernel named 'p3'. Known: angular", 2),
    "no price": (("sketch", "plan", "visits", "--features", "age"), "--error 5", 2),
    "no features": (("sketch", "plan", "visits", "--epsilon", "1"), "needs features", 2),
    "epsilon 0": ((*BUILD[:8], "0", "--yes"), "--epsilon 1", 2),
    "epsilon that is no number": ((*BUILD[:8], "much", "--yes"), "is not a number", 2),
    "a bandwidth of 0": ((*BUILD, "--bandwidth", "0", "--yes"), "bandwidth must be", 2),
    "more than the budget": ((*BUILD[:8], "50", "--yes"), "has", 3),
    "a text as a number": ((*BUILD[:4], "note", *BUILD[5:], "--yes"), "'note' is of type text", 2),
    "a price above the limit": ((*BUILD, "--max-cost", "0.000001"), "more than the 0.000001", 2),
    "more counters than fit": ((*BUILD[:10], "65536", "--kernel", "laplacian", "--yes"), "--rows 8192", 2),
    "rows that are no power of two": ((*BUILD[:10], "100", "--yes"), "--rows 64", 2),
    "a rule that is none": (
        ("sketch", "ask", "x", "--classify", "p.csv", "--rule", "best"),
        "--rule likelihood",
        2,
    ),
    "two questions": (("sketch", "ask", "x", "--modes", "1", "--sample", "2"), "Expected exactly one of", 2),
    "a path as a name": ((*BUILD, "--yes", "-o", ".."), "not a valid name for a release", 2),
    "no sketch": (("sketch", "show", "r-000001"), "No release named", 2),
}


@pytest.mark.parametrize(("words", "said", "status"), REFUSED.values(), ids=REFUSED)
def test_refusals_say_what_to_do_and_spend_nothing(
    owner: Person, types: Types, words: tuple[str, ...], said: str, status: int
) -> None:
    done = types(*words)
    assert said in done.err, done
    assert done.status == status
    assert spent(owner) == 0


POINT_FILES: dict[str, tuple[str, str]] = {
    "a missing column": ("age,price\n1,2\n", "Did you mean"),
    "a NaN": ("age,cost\n1,2\n3,\n", "Point 1 contains NaN"),
    "text": ("age,cost\nold,2\n", "must be numbers"),
    "no CSV": ('"', "not a readable file of points"),
}


@pytest.mark.parametrize(("text", "said"), POINT_FILES.values(), ids=POINT_FILES)
def test_points_that_are_none_are_refused(owner: Person, types: Types, text: str, said: str) -> None:
    assert types(*BUILD, "--yes", "-o", "map").status == 0
    (owner.folder / "points.csv").write_text(text.replace("price", "coast"))
    done = types("sketch", "ask", "map", "--density", "points.csv")
    assert done.status == 2
    assert said in done.err


def test_a_place_that_is_taken_is_refused_before_anything_is_spent(owner: Person, types: Types) -> None:
    assert types(*BUILD, "--yes", "-o", "map").status == 0
    paid = owner.spent()
    again = types(*BUILD, "--yes", "-o", "map")
    assert again.status == 2
    assert "already exists" in again.err
    assert owner.spent() == paid
    assert "not a list of numbers" in types("sketch", "ask", "map", "--classify", "x", "--priors", "much").err


def test_an_edited_sketch_is_refused(owner: Person, types: Types) -> None:
    assert types(*BUILD, "--yes", "-o", "map").status == 0
    file = owner.folder / "releases" / "map" / "sketch.npz"
    file.write_bytes(file.read_bytes()[:-10])
    assert "changed after its release" in types("sketch", "show", "map").err
    manifest = owner.folder / "releases" / "map" / "manifest.json"
    plain = json.loads(manifest.read_text())
    plain["task"] = "explore"
    manifest.write_text(json.dumps(plain))
    assert "contains no sketch" in types("sketch", "show", "map").err


def test_without_a_terminal_the_fix_is_the_whole_command(owner: Person, types: Types) -> None:
    refused = types(*BUILD, "--label", "ward", "-o", "map", "--json")
    assert refused.status == 2
    fix = shlex.split(refused.document["fix"])
    assert fix[0] == "siloquent"
    assert {"--label", "ward", "--yes", "--epsilon"} < set(fix)
    assert types(*fix[1:]).status == 0
    assert (owner.folder / "releases" / "map").is_dir()
