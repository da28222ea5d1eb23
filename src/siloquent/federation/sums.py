"""Secure sums of integer vectors over the parties of a session: additive secret shares to two or more workers.

A party adds its noise share in its own measure room, then splits the result into random words for all workers but one
and the remainder for the last one; after that it may leave. Each worker adds the shares it received, and the
moderator adds the workers' sums. Without the shares of at least one worker, the others look uniformly random. For what
this protects see docs/explanation/federation-security.md.

A missing party is left out as long as ``min_parties`` remain. One session reveals one sum.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from siloquent.errors import ProtocolError, RequestError
from siloquent.federation.channel.base import Channel
from siloquent.federation.messages.payload import (
    encode_canonical,
    pack_bytes,
    pack_json,
    pack_words,
    unpack_bytes,
    unpack_json,
    unpack_words,
)
from siloquent.privacy import parse_fraction

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from siloquent.federation.messages.invitation import Invitation
    from siloquent.federation.protocols import Part

    WorkerNoise = Callable[[NDArray[np.int64], "SumSpec"], NDArray[np.int64]]

Noise = Literal["none", "laplace", "gaussian", "workers"]
PROTOCOL, SERVICE = "sum/1", "sum"
SEED_BYTES = 32
MAX_LENGTH = 2**27
MAX_TOTAL = 2**62
TAILS = 100  # scales of noise that are kept free below 2^62: e^-100 is never met
Y = "sum/y"  # the party's noisy vector, in its state until the end
A0, A1, A2, A3, A4, A5, A6 = "a0", "a1", "a2", "a3", "a4", "a5", "a6"


@dataclass(frozen=True, slots=True)
class SumSpec:
    """The specification of a sum. All roles hold the same one; its digest is compared at the first step.

    Args:
        name: A label for display and logs.
        length: Coordinates n.
        bound: Each |x| before noise is at most this.
        min_parties: With fewer complete parties there is no sum.
        colluding: The number that may reveal their noise: h = min_parties - colluding shares are certainly included.
            At least 1 where parties add the noise: a party may see the sum, and it knows its own share.
        noise: ``"laplace"`` or ``"gaussian"``: each party adds a share for h; ``"workers"``: each worker adds a full
            draw to its partial sum; ``"none"``: the sum is exact, and the caller must account for its disclosure.
        scale: The scale of the whole Laplace noise, or the standard deviation's square of the whole Gaussian one.
        law: For ``"workers"``: the distribution of the full draw, ``"laplace"`` or ``"gaussian"``.
    Raises:
        RequestError: the numbers cannot be summed below 2^62, or no honest share would be in.
    """

    name: str
    length: int
    bound: int
    parties: int
    min_parties: int
    colluding: int = 1
    noise: Noise = "none"
    scale: Fraction = Fraction(0)
    law: Literal["laplace", "gaussian"] = "laplace"

    def __post_init__(self) -> None:
        if not 1 <= self.length <= MAX_LENGTH:
            raise RequestError(f"A sum has 1 to {MAX_LENGTH} coordinates, not {self.length}.")
        if not 1 <= self.min_parties <= self.parties or self.bound < 0 or self.colluding < 0:
            raise RequestError("A sum needs 1 <= min_parties <= parties, and bounds that are not negative.")
        if self.noise in ("laplace", "gaussian") and self.colluding < 1:
            raise RequestError("Every party knows its own share of the noise and can take it off.", fix="colluding = 1")
        if self.noise in ("laplace", "gaussian") and self.honest < 1:
            fix = 'noise = "workers", or more parties'
            raise RequestError(f"{self.min_parties} parties of which {self.colluding} collude leave no noise.", fix=fix)
        if self.noise in ("laplace", "gaussian") and self.parties == 2:
            raise RequestError("Of two parties each knows its own share of the noise.", fix='noise = "workers"')
        if self.noise != "none" and self.scale <= 0:
            raise RequestError("The noise needs a scale above 0.")
        if self.parties * self.bound + TAILS * self._deviation >= MAX_TOTAL:
            raise RequestError("The sum could exceed 62 bits.", fix="a smaller bound or a coarser grid")

    @property
    def honest(self) -> int:
        """The number h of noise shares that are certainly included."""
        return self.min_parties - self.colluding

    @property
    def digest(self) -> str:
        """The SHA-256 of the spec, compared by all roles."""
        return hashlib.sha256(encode_canonical(self.to_json())).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return the spec in the form used in an invitation's body."""
        return {
            "name": self.name,
            "length": self.length,
            "bound": self.bound,
            "parties": self.parties,
            "min_parties": self.min_parties,
            "colluding": self.colluding,
            "noise": self.noise,
            "scale": f"{self.scale.numerator}/{self.scale.denominator}",
            "law": self.law,
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> SumSpec:
        """Parse the spec in an invitation's body.

        Raises:
            ProtocolError: ``bad_encoding``: it is not a spec.
        """
        try:
            return cls(**{**told, "scale": parse_fraction(told["scale"])})
        except (KeyError, TypeError, ValueError, ArithmeticError, RequestError):
            raise ProtocolError("bad_encoding") from None

    @property
    def _deviation(self) -> int:
        """An integer above the standard deviation of all noise that may be included, over all roles."""
        draws = 64 if self.noise == "workers" else self.parties
        is_gaussian = self.noise == "gaussian" or (self.noise == "workers" and self.law == "gaussian")
        one = self.scale if not is_gaussian else Fraction(int(self.scale**0.5) + 1)
        return 0 if self.noise == "none" else int(2 * draws * one) + 1


@dataclass(frozen=True, slots=True)
class SumResult:
    """The result that every role receives: the total, shape (n,), and the parties whose vectors it includes."""

    total: NDArray[np.int64]
    parties: tuple[str, ...]


def contribute_vector(channel: Channel, spec: SumSpec, noisy: Callable[[], NDArray[np.int64]]) -> SumResult:
    """Run a party's part: share its vector among the workers, then wait for the sum.

    Args:
        noisy: Reserves the permit, then gives this party's vector with its share of noise, both from its task's measure
            room; shape (n,). Called once in a session's life, however often the process is killed after it returned.
    Raises:
        ProtocolError: as the channel says; ``state_lost``: the vector is gone and not every worker has its share;
            ``planner_mismatch``: the session has fewer parties than the spec allows, or more, or a worker was told
            another spec, such as one without its noise; then nothing was drawn or sent.
        RequestError: the vector has another shape.
    Privacy:
        Without one worker's shares, a role learns only the sum over ``SumResult.parties`` (ChaCha20 is a PRG); what the
        sum itself reveals is priced by the caller's event. See docs/explanation/federation-security.
    """
    workers = _list_workers(channel)
    # Parties that did not join are left out: the noise is shared among min_parties, the bound holds for all.
    if not spec.min_parties <= len(channel.members.parties) <= spec.parties:
        raise ProtocolError("planner_mismatch", role=channel.members.moderator, step=A1)
    for worker, payload in channel.gather(A0, workers).items():
        _require_spec(unpack_json(payload), spec, worker, A0)
    channel.send(channel.members.moderator, A1, pack_json({"spec": spec.digest}))
    if not all(channel.is_sent(worker, A2) for worker in workers):
        for worker, share in _build_shares(channel, spec, workers, noisy).items():
            channel.send(worker, A2, share)
    told = unpack_json(channel.receive(A6, channel.members.moderator))
    total = unpack_words(channel.receive(f"{A6}/1", channel.members.moderator), spec.length)
    channel.state.erase(Y)
    return SumResult(_centre(total), _parse_included(channel, spec, told))


def add_shares(
    channel: Channel, spec: SumSpec, noise: WorkerNoise | None = None, *, timeout: float | None = None
) -> None:
    """Run a worker's part: add the shares of all parties complete at every worker, for one set of parties only.

    Args:
        noise: For ``noise = "workers"``: adds a draw from the spec's distribution to a vector; from a measure room.
        timeout: Seconds after which parties whose share has not come are left out.
    Raises:
        ProtocolError: ``planner_mismatch``: asked for parties whose shares are not here, for too few, or for one twice.
        RequestError: the spec wants workers' noise and this worker has none to give.
    """
    import numpy as np

    if spec.noise == "workers" and noise is None:
        raise RequestError("This sum's noise is the workers' to draw, and this worker was started without a source.")
    moderator, workers = channel.members.moderator, _list_workers(channel)
    for party in channel.members.parties:  # each worker itself tells each party what it will do with that party's share
        channel.send(party, A0, pack_json({"spec": spec.digest}))
    kept = channel.gather(A2, channel.members.parties, enough=spec.min_parties, timeout=timeout)
    channel.send(moderator, A3, pack_json({"parties": list(kept), "spec": spec.digest}))
    included = _parse_included(channel, spec, unpack_json(channel.receive(A4, moderator)))
    if not set(included) <= set(kept):
        raise ProtocolError("planner_mismatch", role=moderator, step=A4)
    if channel.is_sent(moderator, A5):
        return
    is_last = channel.me == workers[-1]
    total = np.zeros(spec.length, dtype=np.uint64)
    for party in included:
        total += _expand_share(kept[party], spec.length, is_last)
    channel.send(moderator, A5, _build_partial(channel, spec, total, noise))


def gather_sum(channel: Channel, spec: SumSpec, *, timeout: float | None = None) -> SumResult:
    """Run the moderator's part: settle which parties are included, add the workers' sums, send the result to all.

    Args:
        timeout: Seconds after which parties that have not come are left out; None waits up to the session's deadline.
    Raises:
        ProtocolError: ``peer_missing``: fewer than ``min_parties``, or a worker; ``planner_mismatch``: another spec.
    """
    import numpy as np

    parties, workers = channel.members.parties, _list_workers(channel)
    for party, payload in channel.gather(A1, parties, enough=spec.min_parties, timeout=timeout).items():
        _require_spec(unpack_json(payload), spec, party, A1)
    complete = set(parties)
    for worker, payload in channel.gather(A3, workers).items():
        told = unpack_json(payload)
        _require_spec(told, spec, worker, A3)
        complete &= set(_parse_names(told))
    included = [party for party in parties if party in complete]
    if len(included) < spec.min_parties:
        absent = next(party for party in parties if party not in complete)
        raise ProtocolError("peer_missing", role=absent, step=A2)
    for worker in workers:
        channel.send(worker, A4, pack_json({"parties": included}))
    total = np.zeros(spec.length, dtype=np.uint64)
    for payload in channel.gather(A5, workers).values():
        total += unpack_words(payload, spec.length)
    for party in parties:
        channel.send(party, A6, pack_json({"parties": included}))
        channel.send(party, f"{A6}/1", pack_words(total))
    return SumResult(_centre(total), tuple(included))


def build_worker_part(noise: WorkerNoise | None = None) -> Part:
    """Build the service ``"sum"``: workers that add shares, and draw noise if they were given a source of it."""

    def part(channel: Channel, invitation: Invitation, desk: Any) -> None:
        spec = SumSpec.from_json(invitation.body["sum"])
        timeout = float(invitation.step_deadline_s) if spec.min_parties < spec.parties else None
        add_shares(channel, spec, noise, timeout=timeout)

    return part


def _build_shares(
    channel: Channel, spec: SumSpec, workers: tuple[str, ...], noisy: Callable[[], NDArray[np.int64]]
) -> dict[str, bytes]:
    """Build the shares: seeds for all workers but the last, the remainder for that one; drawn once, then stored."""
    import numpy as np

    kept = channel.state.get(Y)
    if kept is None:
        if any(channel.is_sent(worker, A2) for worker in workers):
            raise ProtocolError("state_lost", role=channel.me, step=A2)
        values = noisy()
        if values.shape != (spec.length,) or values.dtype != np.int64:
            raise RequestError(f"This sum is over {spec.length} whole numbers of 64 bits.")
        seeds = os.urandom(SEED_BYTES * (len(workers) - 1))  # allowed: masks of shares, no noise
        kept = seeds + values.astype("<i8").tobytes()
        channel.state.put(Y, kept)
    cut = SEED_BYTES * (len(workers) - 1)
    rest = np.frombuffer(kept[cut:], dtype="<u8").copy()
    shares = {}
    for k, worker in enumerate(workers[:-1]):
        seed = kept[SEED_BYTES * k : SEED_BYTES * (k + 1)]
        rest -= _stretch(seed, spec.length)
        shares[worker] = pack_bytes(seed)
    return {**shares, workers[-1]: pack_words(rest)}


def _build_partial(
    channel: Channel,
    spec: SumSpec,
    total: NDArray[np.uint64],
    noise: WorkerNoise | None,
) -> bytes:
    """Build a worker's partial sum, with its noise if the spec requires it: drawn once, stored before sending."""
    if spec.noise != "workers":
        return pack_words(total)
    assert noise is not None
    kept = channel.state.get(Y)
    if kept is None:
        import numpy as np

        drawn = noise(np.zeros(spec.length, dtype=np.int64), spec)
        kept = pack_words(total + drawn.astype(np.int64, copy=False).view(np.uint64))
        channel.state.put(Y, kept)
    return kept


def _expand_share(share: bytes, length: int, is_last: bool) -> NDArray[np.uint64]:
    return unpack_words(share, length) if is_last else _stretch(unpack_bytes(share, SEED_BYTES), length)


def _stretch(seed: bytes, length: int) -> NDArray[np.uint64]:
    """Return ``length`` 64-bit words of the ChaCha20 stream of ``seed``; each seed is used once."""
    import numpy as np
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    stream = Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor().update(bytes(8 * length))
    return np.frombuffer(stream, dtype="<u8")


def _centre(total: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Map words modulo 2^64 to integers around 0."""
    import numpy as np

    return total.astype(np.uint64, copy=False).view(np.int64)


def _list_workers(channel: Channel) -> tuple[str, ...]:
    workers = channel.members.workers
    if len(workers) < 2:
        raise RequestError("A sum needs at least two workers.", fix="add workers of other owners to the federation")
    return workers


def _parse_included(channel: Channel, spec: SumSpec, told: Any) -> tuple[str, ...]:
    names = _parse_names(told)
    # A name listed twice would count that party twice; listed a million times, only its noise share would hide it.
    is_set = len(set(names)) == len(names)
    if not is_set or not set(names) <= set(channel.members.parties) or len(names) < spec.min_parties:
        raise ProtocolError("planner_mismatch", role=channel.members.moderator, step=A4)
    return tuple(names)


def _parse_names(told: Any) -> list[str]:
    names = told.get("parties") if isinstance(told, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ProtocolError("bad_encoding")
    return names


def _require_spec(told: Any, spec: SumSpec, role: str, step: str) -> None:
    if not isinstance(told, dict) or told.get("spec") != spec.digest:
        raise ProtocolError("planner_mismatch", role=role, step=step)
