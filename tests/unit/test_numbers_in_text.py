"""One reading of numbers at every door: ASCII digits with nothing between them, and never Python's own wider one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from siloquent.cli import app as cli
from siloquent.errors import SiloquentError
from siloquent.explore import parse
from siloquent.explore.spec.numbers import parse_decimal
from siloquent.federation.policy import _parse_price
from siloquent.privacy import parse_exact, parse_fraction
from siloquent.profile import ProfileSpec
from siloquent.schema.build import parse_schema

AS_PYTHON_READS_THEM = re.compile(r"[+-]?[0-9]+([.][0-9]*)?([eE][+-]?[0-9]+)?")
OTHER_DIGITS = ["\u0661", "\uff11", "\u0967", "\U0001d7cf"]
TABLE = """
format = 1
attribute = [{{ name = "x", type = "integer", lo = 0, hi = 9, outside = "clamp", null = "drop"{bins} }}]
constraint = [{{ kind = "denial", not = "t1.x = {constant}" }}]
[table]
name = "t"
adjacency = "add-remove"
unit = {{ kind = "row" }}
[budget]
accountant = "zcdp"
epsilon = "{epsilon}"
delta = "{delta}"
analysts = {{ ana = "{share}" }}
"""


def table(**given: str) -> object:
    said = {"bins": "", "constant": "1", "epsilon": "1", "delta": "1e-6", "share": "0.5", **given}
    return parse_schema(TABLE.format(**said))


COLLECTION = """
format = 1
name = "c"
epsilon = "{epsilon}"
"""
READERS: dict[str, Callable[[str], object]] = {
    "exact": parse_exact,
    "told": parse_fraction,
    "decimal": lambda text: parse_decimal(text, "x"),
    "ERROR": lambda text: parse(f"SELECT COUNT(*) FROM t ERROR {text}"),
    "CONFIDENCE": lambda text: parse(f"SELECT COUNT(*) FROM t ERROR 1 CONFIDENCE .{text}"),
    "BUDGET": lambda text: parse(f"SELECT COUNT(*) FROM t BUDGET {text} RHO"),
    "HAVING": lambda text: parse(f"SELECT x FROM t GROUP BY x HAVING COUNT(*) > {text} ERROR 5"),
    "WHERE": lambda text: parse(f"SELECT COUNT(*) FROM t WHERE x > {text} ERROR 5"),
    "epsilon": lambda text: table(epsilon=text),
    "delta": lambda text: table(delta=f"0.{text}"),
    "share": lambda text: table(share=f"0.{text}"),
    "width": lambda text: table(bins=f', bins = {{ width = "{text}" }}'),
    "constant": lambda text: table(constant=text),
    "max_price": lambda text: _parse_price("rule", text),
    "canaries": lambda text: ProfileSpec("t", ("a", "b"), canaries=f"0.{text}"),  # type: ignore[arg-type]
}


def refused(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except (SiloquentError, ValueError):
        return True
    return False


@pytest.mark.parametrize("door", READERS)
def test_a_plain_number_is_read(door: str) -> None:
    assert not refused(READERS[door], "1")


@st.composite
def strange(draw: st.DrawFn) -> str:
    """A number as Python reads it, with an underscore or a digit of another script in it."""
    digits = draw(st.lists(st.sampled_from("0123456789"), min_size=2, max_size=6).map("".join))
    place = draw(st.integers(1, len(digits) - 1))
    between = draw(st.sampled_from(["_", *OTHER_DIGITS]))
    return digits[:place] + between + digits[place:]


@pytest.mark.parametrize("door", READERS)
@given(strange())
def test_what_python_alone_takes_for_a_number_is_refused_everywhere(door: str, text: str) -> None:
    assert Decimal(text) >= 0  # Python reads it
    assert refused(READERS[door], text)


def numbers_of(command: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every option of the command line that is a number, behind the words of its command."""
    inner = getattr(command, "commands", {}).items()
    found = [pair for name, one in inner for pair in numbers_of(one, (*path, name))]
    for parameter in getattr(command.callback, "__signature__", inspect.Signature()).parameters.values():
        base, *_ = get_args(parameter.annotation) or (None,)
        if {int, float} & {base, *get_args(base)}:
            option = next(one for one in command.params if one.name == parameter.name)
            found.append((*path, max(option.opts, key=len)))
    return found


NUMBERS = numbers_of(typer.main.get_command(cli.app))


def test_the_command_line_has_numbers() -> None:
    assert len(NUMBERS) >= 35
    assert all(words[-1].startswith("--") for words in NUMBERS)


@pytest.mark.parametrize("words", NUMBERS, ids=" ".join)
def test_every_number_of_the_command_line_is_ascii(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("1_0", "\uff11"):
        assert cli.run([*words[:-1], f"{words[-1]}={text}"]) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert words[-1] in said
        assert "not a valid" in said


def test_bounds_of_a_number_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["history", "visits", "--last=0"]) == 2
    assert "not in the range" in capsys.readouterr().err


AMOUNTS = [
    ["sketch", "plan", "visits", "--features", "age", "--epsilon"],
    ["synth", "plan", "visits", "--epsilon"],
    ["search", "offer", "visits", "--features", "age", "--explain", "--epsilon"],
    ["share", "release", "visits", "--label", "ward", "--features", "age", "--explain", "--rho"],
]


@pytest.mark.parametrize("words", AMOUNTS, ids=lambda words: words[0])
@pytest.mark.parametrize("text", ["1_000", "0.0_1", "\u0661", "1e-\uff13"])
def test_amounts_of_the_command_line_are_ascii(
    words: list[str], text: str, demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["--workspace", str(demo), *words, text]) == 2
    assert "is not a number" in capsys.readouterr().err


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from siloquent.demo.clinic import create_clinic

    folder = tmp_path_factory.mktemp("demo") / "clinic"
    create_clinic(folder)
    return folder
