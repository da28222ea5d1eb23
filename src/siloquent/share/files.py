"""A release for sharing as a folder: ``share.npz``, a readable table and a manifest; written and loaded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from siloquent.charts.text import NULL
from siloquent.releases import KeptMeasurement, Manifest, ReleaseFile, keep_measurement
from siloquent.releases.codec import FolderCodec
from siloquent.releases.guarantees import build_provenance
from siloquent.releases.provenance import Provenance, read_at_most, read_checked
from siloquent.share.spec.encoding import build_encoding, list_bin_names
from siloquent.share.spec.layout import Layout
from siloquent.share.spec.release import UNKNOWN, ShareRelease, decode_release
from siloquent.version import VERSION

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.ledger import SettledAnswer
    from siloquent.schema import TableSchema

FILE, TABLE = "share.npz", "numbers.parquet"
MAX_BYTES = 2**27
COLUMNS = ("feature", "bin", "label", "count")


def format_release_id(release: ShareRelease) -> str:
    """Return the release's name: its position in the ledger."""
    return f"r-{release.part.seq:06d}"


def save_release(release: ShareRelease, folder: Path) -> Path:
    """Write ``release`` as ``folder``, atomically; an equal existing one is kept.

    Raises:
        ReleaseError: The folder holds something else, or writing fails.
    """
    return SHARE_CODEC.write(release, folder)


def load_release(path: Path, *, agent: str = "") -> ShareRelease:
    """Load the release in a folder, whose hash is checked, or in a file ``share.npz`` that another silo sent.

    Args:
        agent: The name in messages (default: the folder's or file's name).
    Raises:
        ReleaseError: It is not a release for sharing, or was changed after its release.
    """
    name = agent or (path.name if path.is_dir() else path.stem)
    if path.is_dir():
        _, data = read_checked(path, FILE, task="share", kind="a release for sharing", most=MAX_BYTES)
    else:
        data = read_at_most(path, MAX_BYTES, "a release for sharing")
    return decode_release(data, agent=name)


def assemble(schema: TableSchema, stored: SettledAnswer) -> ShareRelease:
    """Build the release stored in the ledger, with its guarantee and receipt: the same at every replay."""
    return replace(decode_release(stored.payload), part=build_provenance(schema, stored))


def _build_contents(release: ShareRelease) -> dict[str, pa.Table | bytes]:
    return {TABLE: build_numbers_table(release), FILE: release.to_bytes()}


def _build_earlier_contents(release: ShareRelease) -> dict[str, pa.Table | bytes] | None:
    """Build the files as they were while the text NULL was not told from NULL; None where no value reads so."""
    import pyarrow as pa

    table = build_numbers_table(release)
    bins = [name[1:-1] if name.strip(" '") == NULL and name != NULL else name for name in table["bin"].to_pylist()]
    if bins == table["bin"].to_pylist():
        return None
    column = table.column_names.index("bin")
    return {**_build_contents(release), TABLE: table.set_column(column, "bin", pa.array(bins, pa.string()))}


def build_numbers_table(release: ShareRelease) -> pa.Table:
    """Build a readable table of a release: label x bin counts, bins' counts, moments' sums, or a tree's leaves."""
    import pyarrow as pa

    rows = list(_list_rows(release))
    kinds = (pa.string(), pa.string(), pa.string(), pa.int64())
    columns = zip(*rows, strict=True) if rows else ((),) * 4
    return pa.table({name: pa.array(list(c), kind) for name, c, kind in zip(COLUMNS, columns, kinds, strict=True)})


def _list_rows(release: ShareRelease) -> list[tuple[str, str, str, int]]:
    encoding = build_encoding(release.agreement)
    labels = [str(label) for label in encoding.labels]
    if release.agreement.method == "tree":
        leaves = release.values["leaves"].reshape(-1, encoding.classes)
        kept = np.argsort(-leaves.sum(axis=1), kind="stable")[:100]
        return [("leaf", str(leaf), labels[c], int(leaves[leaf, c])) for leaf in kept for c in range(encoding.classes)]
    layout = Layout(release.agreement.method, encoding)
    ends = np.cumsum((0, *layout.list_lengths()))
    if layout.method == "moments":
        return [("", f"number {i}", "", int(value)) for i, value in enumerate(release.counts[: ends[2]])]
    names = [(attribute.name, text) for attribute in encoding.features for text in list_bin_names(attribute)]
    if layout.method == "gram" and layout.is_signed:
        ones = release.counts[ends[1] : ends[2]]
        return [(*name, "", int(count)) for name, count in zip(names, ones, strict=True)]
    tables = release.counts[ends[-2] :].reshape(encoding.classes, encoding.columns)
    return [(*name, labels[c], int(tables[c, i])) for i, name in enumerate(names) for c in range(encoding.classes)]


def _list_files(release: ShareRelease) -> tuple[ReleaseFile, ...]:
    rows = len(_list_rows(release))
    numbers = sum(values.size for values in release.values.values())
    return (
        ReleaseFile(TABLE, "", rows, COLUMNS, {"count": "1"}),
        ReleaseFile(FILE, "", numbers, tuple(sorted(release.values)), dict.fromkeys(sorted(release.values), "1")),
    )


def _build_manifest(release: ShareRelease) -> Manifest:
    agreement, part = release.agreement, release.part
    return Manifest(
        id=format_release_id(release),
        task="share",
        package=f"siloquent {VERSION}",
        table=release.table,
        schema=f"sha256:{release.schema_digest}",
        request={
            "query": f"share {release.table}: {agreement.method} of {agreement.label.name}",
            "share": json.loads(agreement.to_json()),
            "agreement": agreement.digest,
        },
        guarantee={"sentence": release.describe_guarantee(), "account": part.account, "unit": part.unit},
        accuracy={"promise": "the noise's variance is in the file; models carry no interval", "label": "typical"},
        receipt={"ledger": part.ledger, "seq": part.seq, "hash": part.hash, "silos": release.silos},
        files=(),
        known=("counts are neither rounded nor clamped at zero", *release.notes),
    )


def _split(data: bytes) -> tuple[tuple[Provenance, ...], bytes]:
    """Split a file into its provenance and the bytes of its measurement."""
    release = decode_release(data)
    return (release.part,), replace(release, part=UNKNOWN).to_bytes()


def _find_kept(stored: SettledAnswer) -> KeptMeasurement | None:
    return keep_measurement("share", FILE, _split, stored)


SHARE_CODEC = FolderCodec(
    _build_manifest,
    _list_files,
    _build_contents,
    assemble,
    normalize=lambda data: decode_release(data).to_bytes(),
    keep=_find_kept,
    build_earlier=_build_earlier_contents,
)
