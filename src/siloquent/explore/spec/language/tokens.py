"""Splitting of text into tokens in one linear pass; overlong, invalid or unterminated text is refused here."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from siloquent.errors import SyntaxProblem

MAX_BYTES = 64 * 1024

_SHAPES = re.compile(
    r"""
      (?P<space>   \s+ | --[^\n]* | /\*(?:[^*]|\*(?!/))*\*/ )
    | (?P<text>    '[^']*(?:''[^']*)*' )
    | (?P<quoted>  "[^"]*(?:""[^"]*)*" | `[^`]*(?:``[^`]*)*` | \[[^\[\]]*\] )
    | (?P<number>  (?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)? )
    | (?P<word>    [^\W\d]\w* )
    | (?P<symbol>  //|/(?!\*)|<=|>=|<>|!=|==|::|\|\||[-(){},;.+*%=<>?$@:\[\]!&|^~\#] )
    """,
    re.VERBOSE,
)
_NEVER_CLOSED = {"'": "text in single quotes", '"': "name in double quotes", "`": "name in backticks", "/": "comment"}
_SAME = {"<>": "!=", "==": "="}


class Token(NamedTuple):
    """One word, name, number, text or symbol; ``start`` is its offset.

    ``word``: compared by the grammar: the upper-case word or the symbol, empty for quoted names, numbers and texts.
    """

    kind: Literal["word", "quoted", "number", "text", "symbol", "end"]
    text: str
    word: str
    start: int


def split_tokens(text: str) -> list[Token]:
    """Split ``text`` into tokens without comments, followed by one of kind ``end``.

    Raises:
        SyntaxProblem: too long, not Unicode text, an invalid character, or unterminated quotes.
    """
    _check_text(text)
    found: list[Token] = []
    place = 0
    while place < len(text):
        match = _SHAPES.match(text, place)
        if match is None or match.lastgroup is None:
            raise _build_unreadable(text, place)
        if match.lastgroup != "space":
            found.append(_build_token(match.lastgroup, match.group(), place))
        place = match.end()
        if match.lastgroup == "number" and place < len(text) and (text[place].isalnum() or text[place] == "_"):
            raise SyntaxProblem(
                "A number is followed by letters", position=place, expected="digits, a point, or e with an exponent"
            )
    found.append(Token("end", "", "", len(text)))
    return _read_double_quotes(text, found) if "`" in text else found


def _read_double_quotes(text: str, tokens: list[Token]) -> list[Token]:
    """Return ``tokens`` as dialects with backticks read them: double quotes are around texts, not names."""
    quotes = {text[one.start] for one in tokens if one.kind == "quoted"}
    if "`" not in quotes:
        return tokens
    return [one._replace(kind="text") if one.kind == "quoted" and text[one.start] == '"' else one for one in tokens]


def _check_text(text: str) -> None:
    try:
        # A text with more characters than allowed bytes is too long, without encoding it first.
        size = len(text) if len(text) > MAX_BYTES else len(text.encode())
    except UnicodeEncodeError as wrong:
        raise SyntaxProblem("The text contains a lone surrogate", position=wrong.start) from None
    if size > MAX_BYTES:
        raise SyntaxProblem(f"A query can have at most {MAX_BYTES:,} bytes", position=MAX_BYTES)
    if "\0" in text:
        raise SyntaxProblem("The text contains a NUL character", position=text.index("\0"))


def _build_token(shape: str, found: str, start: int) -> Token:
    if shape == "word":
        # Only ASCII words are words of the language: "ſelect".upper() is "SELECT" in Unicode.
        return Token("word", found, found.upper() if found.isascii() else "", start)
    if shape == "symbol":
        return Token("symbol", found, _SAME.get(found, found), start)
    if shape == "text":
        return Token("text", found[1:-1].replace("''", "'"), "", start)
    if shape == "quoted":
        return Token("quoted", found[1:-1].replace(found[-1] * 2, found[-1]), "", start)
    return Token("number", found, "", start)


def _build_unreadable(text: str, place: int) -> SyntaxProblem:
    sign = text[place]
    if sign in _NEVER_CLOSED:
        return SyntaxProblem(f"The {_NEVER_CLOSED[sign]} is not closed", position=place, expected="its end")
    return SyntaxProblem(f"The character {sign!r} (U+{ord(sign):04X}) is not valid here", position=place)
