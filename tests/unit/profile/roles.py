"""Sessions in which a role deviates, or dies and comes back; and what each role saw of a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.trials.toy_group import ToyGroup
from siloquent.errors import ProtocolError
from siloquent.federation.channel import Channel, MemoryNetwork, run_all
from siloquent.federation.messages.payload import parse_kind, unpack_bytes, unpack_json, unpack_words
from siloquent.profile.spec import FDReport, ProfileColumn, ProfileSpec
from siloquent.profile.task.respond import RowOpener
from siloquent.profile.terms import Terms
from siloquent.testing.profile import build_parts, open_in_memory
from unit.profile.lattice import Codes, as_table, names

Part = Callable[[Channel], Any]
MODERATOR_COINS = bytes(range(32))


def terms(columns: int, **spec: Any) -> Terms:
    asked = ProfileSpec("t", names(columns), **{"min_rows": 2, **spec})
    return Terms(asked, tuple(ProfileColumn(name, "text") for name in names(columns)))


def honest(net: MemoryNetwork, parts: Sequence[Codes] | Sequence[RowOpener], **spec: Any) -> dict[str, Part]:
    """What each role of a session runs."""
    opened: list[RowOpener] = []
    for part, name in zip(parts, net.members.parties, strict=True):
        opened.append(part if callable(part) else open_in_memory(as_table(part), name))
    columns = spec.pop("columns", None) or parts[0].shape[1]  # type: ignore[union-attr]
    return dict(build_parts(net.members, terms(columns, **spec), opened, group=ToyGroup()))


def run(net: MemoryNetwork, parts: dict[str, Part]) -> FDReport:
    report = run_all(net, parts)[net.members.moderator]
    assert isinstance(report, FDReport)
    return report


class Tampering:
    """A role's channel that changes what it sends at steps that begin with ``step``, as ``alter`` says."""

    def __init__(self, channel: Channel, step: str, alter: Callable[[bytes], bytes]) -> None:
        self._channel, self._step, self._alter = channel, step, alter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def send(self, to: str, step: str, payload: bytes, attempt: int = 0) -> None:
        changed = self._alter(payload) if step.startswith(self._step) else payload
        self._channel.send(to, step, changed, attempt)


def tampering(part: Part, step: str, alter: Callable[[bytes], bytes]) -> Part:
    return lambda channel: part(Tampering(channel, step, alter))  # type: ignore[arg-type]


def refused(net: MemoryNetwork, parts: dict[str, Part]) -> str:
    """The code with which a session ends."""
    try:
        run_all(net, parts)
    except ProtocolError as error:
        return error.code
    return "no refusal"


def view(net: MemoryNetwork, role: str) -> dict[tuple[str, str], Any]:
    """What ``role`` received, hashed down: JSON and counts as they are, elements as numbers and equalities."""
    got = {(sender, step): raw for (sender, to, step, _), raw in net.list_traffic().items() if to == role}
    seen, elements = {}, []
    for key, raw in sorted(got.items()):
        kind = parse_kind(raw)
        if kind == "json":
            seen[key] = _without_hashes(unpack_json(raw))
        elif kind == "words":
            seen[key] = unpack_words(raw).tolist()
        elif key[1][0] == "v" and role == net.members.moderator:
            seen[key] = unpack_bytes(raw)
        else:
            content = unpack_bytes(raw)
            seen[key] = len(content)
            elements += points_of(content, key[1])
    seen[("", "elements")] = (len(elements), len(set(elements)))
    return seen


def points_of(content: bytes, step: str) -> list[bytes]:
    """The elements in a message of a chain or a level."""
    if step[0] in "vd":
        return [content[at : at + 32] for at in range(0, len(content), 32)]
    if step[0] not in "cm" or "/" not in step:
        return []
    found, at = [], 0
    while at < len(content):
        count = int.from_bytes(content[at : at + 4], "big")
        found += [content[at + 4 + 32 * i : at + 36 + 32 * i] for i in range(count)]
        at += 4 + 32 * count
    return found


def _without_hashes(value: Any) -> Any:
    """Commitments are salted hashes: only their lengths are the same over two runs."""
    if isinstance(value, dict):
        return {k: len(v) if k == "commitment" else _without_hashes(v) for k, v in value.items()}
    return value
