"""GROUP BY with totals: ROLLUP, CUBE and GROUPING SETS, as sets of the keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, product

from siloquent.errors import SyntaxProblem
from siloquent.explore.spec.language.cursor import Cursor
from siloquent.explore.spec.predicate import Expression
from siloquent.explore.spec.query import MAX_SETS, GroupBy

ReadKey = Callable[[Cursor], Expression]
Keys = tuple[Expression, ...]


def read_keys(cursor: Cursor, read_key: ReadKey) -> GroupBy:
    """Parse ``a, ROLLUP (b, c)`` or plain keys; each set of keys is one grouping of the rows."""
    start = cursor.token.start
    parts = [_read_part(cursor, read_key)]
    while cursor.take(","):
        parts.append(_read_part(cursor, read_key))
    if cursor.is_at("WITH") and cursor.following.word in ("ROLLUP", "CUBE"):
        cursor.advance()
        keys = [key for part in parts for one in part for key in one]
        parts = [_list_totals(cursor.advance().word, [(key,) for key in keys])]
    _require_few(parts, start)
    sets = [tuple(dict.fromkeys(key for one in chosen for key in one)) for chosen in product(*parts)]
    names = list(dict.fromkeys(key for one in sets for key in one))
    if all(len(part) == 1 for part in parts):
        return GroupBy(tuple(key for part in parts for key in part[0]))
    placed = (tuple(sorted(names.index(key) for key in one)) for one in sets)
    return GroupBy(tuple(names), tuple(dict.fromkeys(placed)))


def _require_few(parts: Sequence[Sequence[Keys]], start: int) -> None:
    number = 1
    for part in parts:
        number *= len(part)
        if number > MAX_SETS:
            raise SyntaxProblem(f"GROUP BY takes at most {MAX_SETS} sets of keys", position=start)


def _read_part(cursor: Cursor, read_key: ReadKey) -> list[Keys]:
    """Parse one element of the list: a key, or several sets of keys."""
    if cursor.is_at("ROLLUP", "CUBE") and cursor.following.word == "(":
        word, start = cursor.advance().word, cursor.token.start
        found = _read_list(cursor, read_key)
        if word == "CUBE" and 2 ** len(found) > MAX_SETS:
            raise SyntaxProblem(f"GROUP BY takes at most {MAX_SETS} sets of keys", position=start)
        return _list_totals(word, found)
    if cursor.is_at("GROUPING") and cursor.following.word == "SETS":
        cursor.advance()
        cursor.advance()
        return _read_list(cursor, read_key)
    return [(read_key(cursor),)]


def _list_totals(word: str, keys: Sequence[Keys]) -> list[Keys]:
    sizes = range(len(keys), -1, -1)
    chosen = (
        [keys[:size] for size in sizes]
        if word == "ROLLUP"
        else [one for size in sizes for one in combinations(keys, size)]
    )
    return [tuple(key for part in one for key in part) for one in chosen]


def _read_list(cursor: Cursor, read_key: ReadKey) -> list[Keys]:
    """Parse ``(a, (b, c), ())``."""
    cursor.expect("(")
    cursor.enter_parenthesis()
    found = [_read_set(cursor, read_key)]
    while cursor.take(","):
        found.append(_read_set(cursor, read_key))
    cursor.leave_parenthesis()
    return found


def _read_set(cursor: Cursor, read_key: ReadKey) -> Keys:
    if not cursor.take("("):
        return (read_key(cursor),)
    keys: list[Expression] = []
    cursor.enter_parenthesis()
    while not cursor.is_at(")"):
        keys.append(read_key(cursor))
        if not cursor.take(","):
            break
    cursor.leave_parenthesis()
    return tuple(keys)
