"""The release of one silo, or of a secure sum of several; its file format."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from siloquent.errors import ReleaseError
from siloquent.fixes import run
from siloquent.privacy import Event, event_from_json, event_to_json, parse_fraction
from siloquent.releases.arrays import pack, unpack
from siloquent.releases.provenance import Provenance
from siloquent.share.spec.agreement import Agreement, parse_agreement
from siloquent.share.spec.encoding import build_encoding
from siloquent.share.spec.layout import Layout

FORMAT = 1
MAX_NUMBERS = 2**23
Integers = NDArray[np.int64]
UNKNOWN = Provenance()
"""The provenance of a release that no ledger has settled yet."""


@dataclass(frozen=True, slots=True)
class ReleasedNoise:
    """The noise on a run of ``length`` numbers; ``variance``: of all of it, over all silos of a secure sum."""

    length: int
    variance: Fraction


@dataclass(frozen=True, slots=True, eq=False)
class ShareRelease:
    """Noisy integers and all that is needed to learn from them; values that are not None fit the agreement.

    ``values``: by name: "counts", the vector of ``Layout``; or a tree's "attributes", "splits", "leaves", "levels".
    ``noise``: of runs of "counts"; of a tree, on leaves' sizes by the number of splits above them, then on levels.
    ``agent``: a name for messages, given by the holder of the release. ``members``: the silos of a secure sum.
    ``rows``: the table's rough public size, 0 if none was declared.
    """

    agreement: Agreement
    values: dict[str, Integers]
    noise: tuple[ReleasedNoise, ...]
    event: Event
    table: str
    rows: int = 0
    members: tuple[str, ...] = ()
    schema_digest: str = ""
    notes: tuple[str, ...] = ()
    part: Provenance = UNKNOWN
    agent: str = ""

    def __post_init__(self) -> None:
        for name, values in self.values.items():
            if values.dtype != np.int64 or values.ndim != 1 or values.size > MAX_NUMBERS:
                raise ReleaseError(f"The release's {name} are not whole numbers in a row.")
        if self.agreement.method == "tree":
            if set(self.values) != {"splits", "leaves", "levels", "seed"}:
                raise ReleaseError("The release is not a tree: it lacks splits, leaves or levels.")
            return
        counts = self.values.get("counts")
        length = Layout(self.agreement.method, build_encoding(self.agreement)).length
        if counts is None or counts.shape != (length,) or sum(noise.length for noise in self.noise) != length:
            raise ReleaseError(f"The release does not hold the {length:,} numbers that its agreement asks for.")

    @property
    def name(self) -> str:
        """The name in messages: the agent's name, else the first characters of its ledger's id."""
        return self.agent or f"ledger {self.part.ledger[:12]}"

    @property
    def counts(self) -> Integers:
        """The vector of ``Layout``."""
        return self.values["counts"]

    @property
    def silos(self) -> int:
        """The number of silos whose rows it includes."""
        return max(len(self.members), 1)

    def describe_guarantee(self) -> str:
        """Return the guarantee in words, with the consequences of silos that share people or noise."""
        words = [self.part.guarantee]
        if self.agreement.trust == "sum":
            words.append(
                f"This holds as long as {self.agreement.honest} of the {self.silos} silos in it follow the "
                "protocol and keep their noise to themselves."
            )
        # One noise covers the whole sum, which a person in k silos changes k times as much: k squared in rho.
        squared = self.agreement.trust == "sum" and "gaussian" in event_to_json(self.event)
        if (k := self.agreement.overlap) > 1:
            times = f"{k * k} times, in rho" if squared else f"{k} times"
            words.append(f"A person may have rows at {k} silos: what they are promised is this price {times}.")
        elif squared:
            words.append("A person with rows at k silos pays k squared times, in rho.")
        else:
            words.append("A person with rows at k silos pays k times.")
        return " ".join(words)

    def to_bytes(self) -> bytes:
        """Encode the release as ``share.npz``: integers and text, no objects; equal releases give equal bytes.

        The agent's name is not included.
        """
        words = {
            "format": FORMAT,
            "agreement": self.agreement.to_json(),
            "noise": [[noise.length, str(noise.variance)] for noise in self.noise],
            "event": event_to_json(self.event),
            "table": self.table,
            "rows": self.rows,
            "members": list(self.members),
            "schema_digest": self.schema_digest,
            "notes": list(self.notes),
            "part": self.part.to_dict(),
        }
        return pack(self.values, words)


def decode_release(data: bytes, *, agent: str = "") -> ShareRelease:
    """Decode the output of ``to_bytes``.

    Raises:
        ReleaseError: It is not a release, was truncated or edited, or has invalid content; ``agent`` is named.
    """
    try:
        values, words = unpack(data, ("counts", "splits", "leaves", "levels", "seed"), most=MAX_NUMBERS)
        return _parse_release(values, words, agent)
    except ReleaseError as wrong:
        wrong.detail = f"The release of {agent}: {wrong.detail}" if agent else wrong.detail
        raise


def _parse_release(values: dict[str, Any], words: dict[str, Any], agent: str) -> ShareRelease:
    try:
        if words["format"] != FORMAT:
            raise ReleaseError("The release has a newer format.", fix="pip install --upgrade siloquent")
        made = ShareRelease(
            agreement=parse_agreement(words["agreement"]),
            values=values,
            noise=tuple(ReleasedNoise(int(length), parse_fraction(variance)) for length, variance in words["noise"]),
            event=event_from_json(words["event"]),
            table=str(words["table"]),
            rows=int(words["rows"]),
            members=tuple(str(name) for name in words["members"]),
            schema_digest=str(words["schema_digest"]),
            notes=tuple(str(note) for note in words["notes"]),
            part=Provenance(**words["part"]),
            agent=agent,
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        raise ReleaseError("The release's words cannot be read.", fix=run("verify", "RELEASE")) from None
    if any(noise.variance < 0 for noise in made.noise):
        raise ReleaseError("The release names noise that there is not.")
    return made
