"""A task's codec writes its releases and renders them again from the ledger; verify asks every task's."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from siloquent.errors import ReleaseError, RequestError
from siloquent.ledger import SettledAnswer
from siloquent.releases import Manifest, ReleaseFile, verify_release
from siloquent.releases.codec import FolderCodec
from siloquent.schema import TableSchema
from siloquent.search import KeyOf, OfferSpec
from siloquent.share import ShareSpec
from siloquent.sketch import Budget
from unit.sketch.tables import session, spec

NOTES = "notes.gz"


@dataclass(frozen=True)
class Notes:
    """A release of nothing but lines."""

    lines: tuple[str, ...]

    def to_bytes(self) -> bytes:
        return gzip.compress("\n".join(self.lines).encode(), mtime=0)


def decode(data: bytes) -> Notes:
    try:
        return Notes(tuple(gzip.decompress(data).decode().split("\n")))
    except (OSError, EOFError):
        raise ReleaseError("These are not notes.") from None


def build_manifest(notes: Notes) -> Manifest:
    receipt = {"ledger": "l", "seq": 3, "hash": "h"}
    return Manifest("r-000003", "notes", "siloquent", "t", "sha256:d", {}, {}, {}, receipt, ())


def list_files(notes: Notes) -> tuple[ReleaseFile, ...]:
    rows = len(notes.lines)
    return (ReleaseFile("lines.parquet", "", rows, ("line",), {}), ReleaseFile(NOTES, "", rows, ("line",), {}))


def build_contents(notes: Notes) -> dict[str, pa.Table | bytes]:
    return {"lines.parquet": pa.table({"line": list(notes.lines)}), NOTES: notes.to_bytes()}


def assemble(_: TableSchema, stored: SettledAnswer) -> Notes:
    return decode(stored.payload)


CODEC = FolderCodec(
    build_manifest, list_files, build_contents, assemble, normalize=lambda data: decode(data).to_bytes()
)
MADE = Notes(("one", "two"))


def rendered(payload: bytes, codec: FolderCodec[Notes] = CODEC, **receipt: object) -> Any:
    manifest = replace(build_manifest(MADE), receipt={"seq": 3, **receipt})
    return codec.render_stored(None, manifest, None, SimpleStored(payload))  # type: ignore[arg-type]


@dataclass(frozen=True)
class SimpleStored:
    """As much of a ledger's entry as this codec reads."""

    payload: bytes


def test_what_is_written_is_what_the_ledgers_entry_renders(tmp_path: Path) -> None:
    folder = CODEC.write(MADE, tmp_path / "r-000003")
    (again,) = rendered(MADE.to_bytes())
    verdict = verify_release(folder, rendered=again)
    assert (verdict.ok, verdict.compared) == (True, True)
    (other,) = rendered(Notes(("one", "2")).to_bytes())
    wrong = [f"{name} does not hold what the ledger keeps." for name in ("lines.parquet", NOTES)]
    assert list(verify_release(folder, rendered=other).problems) == wrong


def test_a_file_that_differs_in_its_compression_is_the_same(tmp_path: Path) -> None:
    (expected,) = rendered(MADE.to_bytes())
    test = expected.contents[NOTES]
    assert callable(test)
    loose = gzip.compress(b"one\ntwo", compresslevel=1, mtime=9)
    assert loose != MADE.to_bytes()
    assert test(loose)
    assert not test(b"no notes")
    exact = replace(CODEC, normalize=bytes).render(MADE).contents[NOTES]
    assert callable(exact)
    assert not exact(loose)


def test_the_entry_of_another_task_and_a_part_of_a_sum_are_not_rendered() -> None:
    assert rendered(b"an answer") is None
    assert rendered(MADE.to_bytes(), parts=2) is None


def test_only_what_a_codec_says_cannot_be_repeated_is_passed_over() -> None:
    def refuse(_: TableSchema, __: SettledAnswer) -> Notes:
        raise RequestError("a file is missing")

    with pytest.raises(RequestError):
        rendered(b"", replace(CODEC, assemble=refuse))
    assert rendered(b"", replace(CODEC, assemble=refuse, unrepeatable=RequestError)) is None


def test_a_release_of_every_task_is_compared_with_the_ledger_under_its_own_name_only(tmp_path: Path) -> None:
    budget = Budget(rho="1")
    with session(tmp_path) as opened:
        folders = {
            "explore": opened.save(opened.ask("SELECT COUNT(*) FROM points ERROR 50")),
            "sketch": opened.sketch.save(opened.sketch.build(spec())),
            "search": opened.search.save(
                opened.search.offer(OfferSpec("points", features=("x",), keys=(KeyOf("kind"),), budget=budget))
            ),
            "share": opened.share.save(
                opened.share.release(ShareSpec("points", label="kind", features=("x",), budget=budget))
            ),
        }
        for task, folder in folders.items():
            verdict = opened.verify(folder)
            assert (task, verdict.ok, verdict.compared) == (task, True, True), verdict.problems
            manifest = (folder / "manifest.json").read_text()
            assert f'"task": "{task}"' in manifest
            (folder / "manifest.json").write_text(manifest.replace(f'"task": "{task}"', '"task": "synth"'))
            assert opened.verify(folder).problems == ("task in manifest.json does not match the ledger.",)
