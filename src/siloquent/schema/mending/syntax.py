"""Slips of TOML: a sign left out, a colon for an equals sign, a word without quotes. One line is corrected."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice

MAX_TRIES = 1_500
MAX_LINE = 400
MAX_READ = 2**23
"""The characters that are parsed for a correction: a longer file has fewer attempts."""
MAX_VALID, MIN_TRIED = 6, 300
_SECTIONS = ("table", "reading", "budget", "attribute", "derived", "constraint")
_PATTERNS: tuple[tuple[str, str], ...] = (
    (r"^(\s*[\w-]+)\s*:\s*", r"\1 = "),
    (r"==+", "="),
    (r"^(\s*[\w-]+)\s+(?=[\"'\[{\d]|true|false)", r"\1 = "),
    (r"\b(\d{1,3}),(\d{3})\b", r"\1\2"),
    (r"= *(\d\d?)[./](\d\d?)[./](\d{4})\b", r"= \3-\2-\1"),
    (r"= *(\d{4})-(\d)-(\d\d?)\b", r"= \1-0\2-\3"),
    (r"= *(\d{4}-\d\d)-(\d)\b", r"= \1-0\2"),
    (r"= *(\d{4})-(?:1[3-9]|[2-9]\d|00)-", r"= \1-12-"),
    (r"\b(lo|width|grid) *= *-?(?:inf|nan)\b", r"\1 = 0"),
    (r"= *-?(?:inf|nan)\b", "= 100"),
    (r"= *-?[\d_]{20,}", "= 1000000"),
    (r"= *True\b", "= true"),
    (r"= *False\b", "= false"),
    (r",?\s*[\w-]+ *= *None\b", ""),
    (r"= *'([\w .:/-]*?)(?=\s*[,}\]]|\s*$)", r'= "\1"'),
    (r"= *(?!true\b|false\b|inf\b|nan\b)([A-Za-z][\w.:/-]*)", r'= "\1"'),
    (r"(?<=[\[,]) *(?!true\b|false\b)([A-Za-z][\w.-]*)(?=\s*[,\]])", r'"\1"'),
    (r",\s*(?=[,}\]])", ""),
    (r"\{\s*,", "{"),
    (r"(?<=[}\]\"])\s*$", ","),
    (r"([\w-]+) = *(?=[,}]|$)", ""),
    (rf"^\s*\[*\s*({'|'.join(_SECTIONS)})s?\s*\]*\s*$", r"[\1]"),
)


def list_corrected_lines(text: str, line: int | None) -> Iterator[tuple[str, str, str]]:
    """Yield the text with one line corrected, that line as it was, and as it is now: the likeliest first."""
    lines = text.split("\n")
    tries = 0
    ranked = _rank_lines(lines, line)
    for correct in (_correct_known, _correct_signs):
        for place in ranked:
            for made in correct(lines[place]):
                tries += 1
                if tries > MAX_TRIES:
                    return
                yield "\n".join([*lines[:place], made, *lines[place + 1 :]]), lines[place], made


def _rank_lines(lines: list[str], line: int | None) -> list[int]:
    """Return the lines to correct: those with unmatched signs, then the one that the reader names, then others."""
    odd = [place for place, one in enumerate(lines) if _is_odd(one)]
    near = [place for place in ((line or 0) - 1, (line or 0) - 2, line or 0) if 0 <= place < len(lines)] if line else []
    opened = [place for place, one in enumerate(lines) if re.match(r"\s*\w+ = \[\s*$|\s*\]\s*$|\s*\[", one)]
    first = [place for place in odd if place in near] or odd[:3]
    vast = [place for place, one in enumerate(lines) if re.search(r"= *-?(?:(?:inf|nan)\b|[\d_]{20,})", one)]
    ranked = [*first, *near, *odd, *vast, *opened]
    return [place for place in dict.fromkeys(ranked) if len(lines[place]) <= MAX_LINE]


def _is_odd(line: str) -> bool:
    bare = line.partition("#")[0] if line.count('"') % 2 == 0 else line
    return (
        line.count('"') % 2 == 1
        or re.sub(r'"[^"]*"', "", line).count("'") % 2 == 1
        or bare.count("{") != bare.count("}")
        or (bare.count("[") != bare.count("]") and not re.search(r"= \[\s*$|^\s*\]", bare))
        or bool(re.match(r"\s*[\w-]+\s*:", bare) or re.match(r"\s*[\w-]+\s+[^=\s]", bare))
    )


def _correct_known(line: str) -> Iterator[str]:
    """Yield the line with each known slip corrected, then with all of them."""
    every = line
    for pattern, meant in _PATTERNS:
        changed = re.sub(pattern, meant, line)
        every = re.sub(pattern, meant, every)
        if changed != line:
            yield changed
    yield every


def _correct_signs(line: str) -> Iterator[str]:
    """Yield the line with one sign more or less, anywhere."""
    places = [
        0,
        *sorted(
            {found.end() for found in re.finditer(r"[\s=,\[\]{}\"]|\w(?!\w)", line)}
            | {found.start() for found in re.finditer(r"\w+|[\[{\"]|[\]}]", line)}
        ),
    ]
    for at in reversed(list(dict.fromkeys((*places, len(line))))):
        yield from (line[:at] + sign + line[at:] for sign in ('"', "}", "]", "{", "[", ", ", " = ", "},"))
    yield from (line[:at] + line[at + 1 :] for at, sign in enumerate(line) if sign in '"{}[],=:')


def find_corrected_line(
    text: str, line: int | None, is_read: Callable[[str], bool], find_fault: Callable[[str], int | None]
) -> tuple[str, str, str] | None:
    """Return the first correction that makes the declaration valid, or else TOML, or else moves the fault on.

    Args:
        line: The line that the reader names, from 1.
        is_read: Whether a declaration is valid.
        find_fault: The line of the first fault of TOML, 0 if it is not known, None if there is none but in a value.
    """
    valid: list[tuple[str, str, str]] = []
    later: list[tuple[str, str, str]] = []
    most = max(MIN_TRIED, MAX_READ // max(len(text), 1))
    for found in islice(list_corrected_lines(text, line), most):
        fault = find_fault(found[0])
        if fault is None and is_read(found[0]):
            return found
        if fault is None:
            valid.append(found)
        elif line and fault > line and not later:
            later.append(found)
        if len(valid) >= MAX_VALID:
            break
    return next(iter((*valid, *later)), None)
