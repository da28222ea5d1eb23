"""Verdicts that are kept between runs: one that was killed after hours goes on where it stopped.

A fault that a test noticed is noticed as long as the faulty file and that test are what they were; one that survived
has survived as long as all tests are.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from benchmarks.mutants import coverage
from benchmarks.mutants.coverage import CACHE
from benchmarks.mutants.declared import Named
from benchmarks.mutants.nursery import ROOT
from benchmarks.mutants.places import Planted
from benchmarks.mutants.planting import Field, Verdict

FILE = CACHE / "verdicts.jsonl"


class KeptVerdicts:
    """The verdicts of earlier runs, and those of this one.

    Args:
        field: Where the faults are planted.
        file: Where they are kept, one JSON line each.
    """

    def __init__(self, field: Field, file: Path = FILE) -> None:
        self.field, self.file = field, file
        self.tests = coverage.digest_files(field.tests.files)
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        self.known = {one["fault"]: one for one in map(json.loads, lines)}

    def judge(self, fault: Planted | Named, *, batches: int | None = None) -> Verdict:
        """The kept verdict of ``fault`` if it still holds; else it is planted now, and the verdict kept.

        Args:
            batches: As for ``Field.judge``; what survives only these is not kept.
        """
        digest = self._digest(fault)
        known = self.known.get(digest)
        if known is not None and known["while"] == self._holds_while(known["by"]):
            return Verdict(fault, known["by"], known["tried"])
        verdict = self.field.judge(fault, batches=batches)
        if verdict.by or batches is None:
            self.keep(verdict)
        return verdict

    def keep(self, verdict: Verdict) -> None:
        """Keep a verdict, in place of an earlier one of the same fault."""
        digest = self._digest(verdict.fault)
        one = {"fault": digest, "by": verdict.by, "tried": verdict.tried, "while": self._holds_while(verdict.by)}
        self.known[digest] = one
        self.file.parent.mkdir(exist_ok=True)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(one) + "\n")

    def _digest(self, fault: Planted | Named) -> str:
        """The digest of the faulty file."""
        text = (self.field.copy / "siloquent" / fault.file).read_text("utf-8")
        changed = (fault.mutation if isinstance(fault, Planted) else fault).apply(text)
        return hashlib.sha256(f"{fault.file}\n{changed}".encode()).hexdigest()

    def _holds_while(self, by: str) -> str:
        if by in ("", "hang"):
            return self.tests
        file = ROOT / by.partition("::")[0]
        return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else self.tests
