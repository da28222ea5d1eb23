"""Sets as tokens: the words of a text, the properties of a record, declared ids."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import RequestError
from siloquent.maths.lsh import hash_ids
from siloquent.sketch.hash_plan import HashPlan

if TYPE_CHECKING:
    import pyarrow as pa

Integers = NDArray[np.int64]
Tokens = NDArray[np.uint32]


def compute_word_tokens(texts: pa.Array, key: int) -> tuple[Tokens, Integers]:
    """Compute the tokens of each text's whitespace-separated words, and the end of each text's words; NULL has none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lists = pc.utf8_split_whitespace(pc.fill_null(texts.cast(pa.string()), ""))
    words = lists.flatten().dictionary_encode()
    lengths = np.asarray(pc.list_value_length(lists).to_numpy(zero_copy_only=False), dtype=np.int64)
    # A text's hash is the same in every process; splitting leaves empty words at the ends of a text.
    known = np.array([_compute_word_token(word, key) for word in words.dictionary.to_pylist()], dtype=np.uint32)
    empty = np.array([word == "" for word in words.dictionary.to_pylist()], dtype=np.bool_)
    places = words.indices.to_numpy()
    full = ~empty[places] if len(empty) else np.zeros(0, dtype=np.bool_)
    owner = np.repeat(np.arange(len(lengths)), lengths)[full]
    return known[places][full] if len(known) else np.zeros(0, np.uint32), _compute_ends(owner, len(lengths))


def _compute_word_token(word: str, key: int) -> int:
    digest = hashlib.blake2b(word.encode(), digest_size=4, key=key.to_bytes(8, "little")).digest()
    return int.from_bytes(digest, "little")


def _compute_ends(owner: Integers, records: int) -> Integers:
    """Compute the end of each record's elements, from the owner of each element in order; shape (records + 1,)."""
    return np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=records))]).astype(np.int64)


def build_one_hot_sets(plan: HashPlan, places: Integers) -> tuple[Tokens, Integers]:
    """Build each record's set: its true booleans, and the value of each category; OUTSIDE and NULL give nothing.

    Args:
        places: Shape (records, features).
    """
    steps = np.array([feature.steps for feature in plan.features])
    is_flag = np.array([feature.kind == "boolean" for feature in plan.features])
    holds = (places >= np.where(is_flag, 1, 0)) & (places < steps)
    first = np.concatenate([[0], np.cumsum(steps)[:-1]])
    owner, column = np.nonzero(holds)
    tokens = hash_ids(first[column] + places[owner, column], key=plan.token_key)
    return tokens, _compute_ends(owner, len(places))


def build_point_sets(plan: HashPlan, points: Any) -> tuple[Tokens, Integers]:
    """Convert queried sets to tokens: texts, sequences of declared values, or records of features.

    Raises:
        RequestError: A point is not of the sketch's type; the message names its number.
    """
    if plan.sets == "words":
        import pyarrow as pa

        texts = list(points)
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                raise RequestError(f"Point {number} is not text.")
        return compute_word_tokens(pa.array(texts, pa.string()), plan.token_key)
    if plan.sets == "group":
        return _tokenise_lists(plan, points)
    return build_one_hot_sets(plan, _encode_records(plan, points))


def _tokenise_lists(plan: HashPlan, points: Iterable[Iterable[Any]]) -> tuple[Tokens, Integers]:
    feature = plan.features[0]
    known = {value: place for place, value in enumerate(feature.values)}
    lists: list[Integers] = []
    for number, elements in enumerate(points):
        try:
            if feature.values:
                places = np.array([known.get(element, -1) for element in elements], dtype=np.int64)
            else:
                numbers = np.asarray(elements if isinstance(elements, np.ndarray) else list(elements), dtype=float)
                places = np.rint((numbers - feature.lo) / feature.grid).astype(np.int64)
        except (TypeError, ValueError):
            raise RequestError(f"Point {number} is not a set of values of {feature.name!r}.") from None
        lists.append(places[(places >= 0) & (places < feature.steps)])
    ends = np.concatenate([[0], np.cumsum([len(places) for places in lists])]).astype(np.int64)
    return hash_ids(np.concatenate([np.zeros(0, np.int64), *lists]), key=plan.token_key), ends


def _encode_records(plan: HashPlan, points: Sequence[Sequence[Any]]) -> Integers:
    places = np.full((len(points), len(plan.features)), -1, dtype=np.int64)
    for number, record in enumerate(points):
        if len(record) != len(plan.features):
            raise RequestError(f"Point {number} has {len(record)} values, not {len(plan.features)}.")
        for column, (feature, value) in enumerate(zip(plan.features, record, strict=True)):
            places[number, column] = _find_index(feature.values, value)
    return places


def _find_index(values: tuple[str, ...], value: Any) -> int:
    if values:
        return values.index(value) if value in values else -1
    return int(bool(value))
