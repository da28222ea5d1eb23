"""Parsing of options and files into specs, points and sketches; every refusal names the option or column to change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from siloquent.cli.base.paths import is_path, load_workspace, read_toml, resolve_file
from siloquent.errors import RequestError, UnknownName
from siloquent.fixes import UseOption, join_choices, run, use_budget
from siloquent.foreign.numbers import parse_plain_float

if TYPE_CHECKING:
    from siloquent.cli.base.command import Options
    from siloquent.sketch import Sketch, SketchSpec

MAX_BYTES = 64 * 2**20


def build_sketch_spec(options: Options, given: Mapping[str, Any]) -> SketchSpec:
    """Return the sketch described by a command line: a TOML file, or a table and options.

    Raises:
        RequestError: something is missing, or is not a number; the fix names the option.
    """
    from siloquent.sketch import parse_spec

    table = given["table"]
    if table is None:
        raise RequestError(
            "A sketch needs a table.", fix=run("sketch plan", "TABLE", "--features", "A,B", "--epsilon", "1")
        )
    if table.endswith(".toml"):
        return parse_spec(read_toml(resolve_file(options, Path(table))))
    if not given["features"]:
        raise RequestError(
            "A sketch needs features.", fix=run("sketch plan", table, "--features", "A,B", "--epsilon", "1")
        )
    plain: dict[str, Any] = {
        "table": table,
        "features": [name.strip() for name in given["features"].split(",")],
        "kernel": _build_kernel(given["kernel"], given["bandwidth"]),
        "scale": given["scale"],
        "label": given["label"],
        "group": given["group"],
        "plan_file": given["plan_file"],
    }
    if given["rows"] is not None:
        plain["rows"] = given["rows"]
    plain |= _build_promise(given)
    return parse_spec({name: value for name, value in plain.items() if value is not None})


def _build_promise(given: Mapping[str, Any]) -> dict[str, Any]:
    if given["error"] is not None:
        try:
            relative = parse_plain_float(given["error"]) / 100
        except ValueError:
            raise RequestError(f"--error must be a percentage, not {given['error']!r}.", fix="--error 5") from None
        return {"accuracy": {"relative": relative, "at_density": given["at_density"], "planning": "typical"}}
    if given["epsilon"] is None and given["rho"] is None:
        raise RequestError(
            "A sketch needs a price or an error.", fix=join_choices([use_budget("epsilon", "1"), UseOption("error", 5)])
        )
    return {"budget": {name: given[name] for name in ("epsilon", "rho") if given[name] is not None}}


def _build_kernel(name: str, bandwidth: float) -> dict[str, Any]:
    made: dict[str, dict[str, Any]] = {
        "p2": {"kind": "p-stable", "order": 2, "bandwidth": bandwidth},
        "p1": {"kind": "p-stable", "order": 1, "bandwidth": bandwidth},
        "laplacian": {"kind": "laplacian", "sigma": bandwidth},
        "angular": {"kind": "angular", "bits": int(max(bandwidth, 1))},
        "hamming": {"kind": "hamming", "bits": int(max(bandwidth, 1))},
        "surrogate": {"kind": "surrogate", "bits": int(bandwidth) if bandwidth >= 2 else 4},
        "jaccard": {"kind": "jaccard"},
    }
    if name not in made:
        raise UnknownName("kernel", name, made, fix="--kernel p2")
    return made[name]


def find_sketch(options: Options, name: str) -> Sketch:
    """Return the sketch of a release in the workspace, by its id or name, or in a folder, by its path."""
    from siloquent.releases import get_release_folder
    from siloquent.sketch import load_sketch

    return load_sketch(Path(name) if is_path(name) else get_release_folder(load_workspace(options).releases, name))


def parse_numbers(text: str | None) -> tuple[float, ...]:
    """Return comma-separated numbers; none for None.

    Raises:
        RequestError: one of them is not a number.
    """
    try:
        return tuple(parse_plain_float(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise RequestError(f"{text!r} is not a list of numbers separated by commas.", fix="--priors 0.9,0.1") from None


def choose_rule(rule: str, priors: str | None) -> Literal["likelihood", "prior", "map"]:
    """Return the classification rule: that of ``priors`` if they are given.

    Raises:
        RequestError: the rule does not exist, or takes no priors.
    """
    if rule == "likelihood":
        return "likelihood" if priors is None else "prior"
    if rule != "map" or priors is not None:
        raise RequestError("The rule must be likelihood, with or without --priors, or map.", fix="--rule likelihood")
    return "map"


def read_points(sketch: Sketch, path: Path) -> Any:
    """Return the points in a CSV or Parquet file: one column for each feature, others are ignored.

    Raises:
        RequestError: the file cannot be read or is too large. UnknownName: a feature has no column.
    """
    from siloquent.foreign.tables import read_table

    try:
        if path.stat().st_size > MAX_BYTES:
            raise RequestError(f"{path} is too large: the limit is 64 MiB.", fix="split the file")
        table = read_table(path)
    except FileNotFoundError:
        raise RequestError(f"File {path} does not exist.", fix="name an existing file") from None
    except (OSError, ValueError):
        raise RequestError(f"{path} is not a readable file of points.", fix="a CSV file with a header line") from None
    names = [feature.name for feature in sketch.plan.features]
    for name in names:
        if name not in table.column_names:
            raise UnknownName(f"column in {path}", name, table.column_names, fix=f"a column named {name}")
    columns = [table[name].to_pylist() for name in names]
    if sketch.plan.sets == "words":
        return columns[0]
    if sketch.plan.sets == "group":
        return [str(texts).split() for texts in columns[0]]
    return list(zip(*columns, strict=True))
