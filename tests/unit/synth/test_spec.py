"""Requests, measurements and declarations as files: round trips, and what is refused."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from siloquent.errors import ReleaseError, RequestError
from siloquent.privacy import DiscreteGaussian
from siloquent.schema.accuracy import AccuracyDefaults
from siloquent.schema.build import parse_schema
from siloquent.schema.formats.reading import read_settings
from siloquent.synth import Budget, SynthSpec, parse_spec, read_spec
from siloquent.synth.spec.measurements import Measurements, NoisyCounts, decode_run_measurements
from siloquent.synth.spec.schema_document import dump_value, parse_schema_document
from unit.schema.declared import WHOLE
from unit.synth.people import schema, spec

FULL = SynthSpec(
    table="people",
    budget=Budget(epsilon="0.50", delta="1e-9"),
    rows=10,
    quality="best",
    columns=("age", "ward"),
    targets=("ward",),
    constraints="none",
    references={"ward_floor": "wards.csv"},
    rates={"3": "0.018"},
    measure_rates="0.1",
    report=0,
    seed=7,
)


def test_a_request_goes_through_json_and_back() -> None:
    assert parse_spec(json.loads(FULL.canonical())).canonical() == FULL.canonical()


def test_equal_amounts_are_one_request() -> None:
    assert spec(budget=Budget(epsilon="2.0")).canonical() == spec(budget=Budget(epsilon=2)).canonical()


def test_a_toml_file_is_a_request(tmp_path: Path) -> None:
    file = tmp_path / "spec.toml"
    file.write_text('table = "people"\nbudget = { epsilon = 0.5 }\ntargets = ["ward"]\nreport = 0.05\n')
    found = read_spec(file)
    assert (found.targets, found.budget.to_dict()) == (("ward",), {"epsilon": "1/2"})
    assert Fraction(str(found.report)) == Fraction(1, 20)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"rows": 0}, "rows must be a whole number"),
        ({"rows": True}, "rows of SynthSpec is a whole number"),
        ({"rows": 10**9}, "rows must be a whole number"),
        ({"quality": "good"}, "quality must be one of"),
        ({"constraints": "some"}, "constraints must be"),
        ({"report": "0.5", "measure_rates": "0.1"}, "three fifths"),
        ({"report": "-0.1"}, "share of the budget"),
        ({"rates": {"x": "0.1"}}, "rates must map"),
        ({"rates": {"1": "2"}}, "rates must map"),
        ({"seed": -1}, "seed must be"),
        ({"columns": ("age", "age")}, "twice"),
        ({"tragets": ("age",)}, "Did you mean 'targets'"),
        ({"budget": {"eps": 1}}, "A budget has no .eps.. Did you mean .epsilon"),
        ({"rates": 3}, "rates of SynthSpec is"),
    ],
)
def test_what_a_request_cannot_say_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(RequestError, match=says):
        parse_spec({"table": "people", "budget": {"epsilon": "1"}, **wrong})


def test_a_file_that_is_no_request_is_refused(tmp_path: Path) -> None:
    for text in ("table = ", "table = 'people'"):
        file = tmp_path / "spec.toml"
        file.write_text(text)
        with pytest.raises(RequestError):
            read_spec(file)
    with pytest.raises(RequestError, match="Cannot read"):
        read_spec(tmp_path / "none.toml")


def measured() -> Measurements:
    joint = NoisyCounts("joint", ("a", "b"), np.arange(6).reshape(2, 3) - 2, Fraction(7, 2), candidates=3)
    table = NoisyCounts("table", ("a",), np.array([5]), Fraction(9), number=4)
    return Measurements("{}", "digest", DiscreteGaussian(Fraction(7, 2), 1), (joint, table), (("a", np.array([0, 4])),))


def test_measurements_are_equal_bytes_and_come_back() -> None:
    data = measured().to_bytes()
    assert data == measured().to_bytes()
    found = decode_run_measurements(data)
    assert [step.dump_header() for step in found.steps] == [step.dump_header() for step in measured().steps]
    assert found.steps[0].counts.tolist() == [[-2, -1, 0], [1, 2, 3]]
    assert found.starts[0][1].tolist() == [0, 4]
    assert found.event == measured().event


@pytest.mark.parametrize("data", [b"", b"hello", measured().to_bytes()[:-40]])
def test_cut_measurements_are_refused(data: bytes) -> None:
    with pytest.raises(ReleaseError):
        decode_run_measurements(data)


def test_a_declaration_goes_through_json_and_back() -> None:
    assert parse_schema_document(json.loads(json.dumps(dump_value(schema())))) == schema()


def test_what_a_model_does_not_depend_on_stays_out_of_its_file() -> None:
    read = replace(schema(), reading=read_settings('decimal = ","'), defaults=AccuracyDefaults("2 PERCENT"))
    assert dump_value(read) == dump_value(schema())
    fields_then = {"name", "domain", "budget", "source", "adjacency", "unit", "version", "size_hint", "constraints"}
    assert set(dump_value(schema())) == fields_then | {"is", "public", "digest"}


def test_a_declaration_in_a_model_file_is_written_as_it_always_was() -> None:
    """Class names stand in the file: one that changed would condemn every model that was released before."""
    document = json.dumps(dump_value(parse_schema(WHOLE)), sort_keys=True)
    assert set(re.findall(r'"is": "(\w+)"', document)) == {
        *("Attribute", "Budget", "Comparison", "DenialConstraint", "Domain", "ForeignKey", "FunctionalDependency"),
        *("Key", "Place", "TableSchema", "Unit", "Decimal", "Fraction", "datetime"),
    }
    assert hashlib.sha256(document.encode()).hexdigest()[:16] == "0edc1a862c64db51"


@pytest.mark.parametrize(
    "plain",
    [None, {}, {"is": "Popen", "args": "ls"}, {"is": "Unit", "kind": "row"}, {"is": "TableSchema", "name": 3}, [[[]]]],
)
def test_a_model_file_can_name_no_other_code(plain: object) -> None:
    with pytest.raises(ReleaseError):
        parse_schema_document(plain)
