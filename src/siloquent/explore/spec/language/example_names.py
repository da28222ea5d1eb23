"""The names in a query, known before it is parsed: for examples with the analyst's own table."""

from __future__ import annotations

from collections.abc import Sequence

from siloquent.explore.spec.language.refusals import AGGREGATES, OTHER_AGGREGATES, RESERVED
from siloquent.explore.spec.language.tokens import Token


def find_names(tokens: Sequence[Token]) -> dict[str, str]:
    """Find the table, a key and an attribute of the query, under the names that examples use for them."""
    own: dict[str, str] = {}
    for place, token in enumerate(tokens):
        before, behind = tokens[max(place - 1, 0)], tokens[place + 1 :]
        if token.word in ("FROM", "BIN") and _is_name(behind):
            is_qualified = behind[1].word == "." and _is_name(behind[2:])
            own.setdefault("visits", behind[2 if is_qualified else 0].text)
        elif token.word == "BY" and before.word == "GROUP" and _is_name(behind):
            if behind[0].word == "ALL" or behind[1].word == "(":
                continue
            own["ward"] = behind[0].text
        elif token.word == "(" and (before.word in AGGREGATES or before.word in OTHER_AGGREGATES):
            behind = behind[behind[0].word == "DISTINCT" :]
            if _is_name(behind) and behind[1].word == ")":
                own.setdefault("cost", behind[0].text)
                if before.word in ("COUNT", "MODE"):
                    own.setdefault("ward", behind[0].text)
        elif token.word in ("SELECT", "DISTINCT") and _is_name(behind) and behind[1].word in (",", "FROM"):
            own.setdefault("ward", behind[0].text)
    return own


def _is_name(tokens: Sequence[Token]) -> bool:
    return bool(tokens) and tokens[0].kind in ("word", "quoted") and tokens[0].word not in RESERVED
