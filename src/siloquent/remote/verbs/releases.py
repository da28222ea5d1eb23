"""Releases: list, read, fetch, verify, share, and questions to sketches. All of it is free."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from siloquent.documents.releases import build_release_document
from siloquent.errors import ReleaseError, RequestError
from siloquent.fixes import UseOption, run
from siloquent.releases import ReleaseVerdict, read_manifest
from siloquent.releases.manifest import MANIFEST
from siloquent.remote.api_document import ApiDocument, DocumentField, read_boolean, read_list, read_many, read_text
from siloquent.remote.calls import build_call
from siloquent.remote.clients import ApiClient, verb
from siloquent.remote.documents import Dependencies, Release, SketchAnswer
from siloquent.remote.exchange import Steps, run_work

if TYPE_CHECKING:
    from siloquent.sketch import Anomaly, Classify, Density, Modes


class _ReleaseVerdictDocument(ApiDocument):
    release = DocumentField(read_text)
    problems = DocumentField(read_many(read_text))
    notes = DocumentField(read_many(read_text))
    compared = DocumentField(read_boolean)


class _AdoptionDocument(ApiDocument):
    changed = DocumentField(read_boolean)


class ReleaseVerbs(ApiClient):
    """The verbs for releases: list, download, verify, share, delete and query them, and adopt dependencies."""

    @verb
    def list_releases(
        self,
        *,
        limit: int | None = None,
        after: str | None = None,
        task: str | None = None,
        table: str | None = None,
    ) -> Steps[list[Release]]:
        """Return the releases that the token may see, newest first.

        Args:
            limit: At most this many, 200 if it is left out.
            after: Only releases older than this one: the last id of the previous page.
            task: Only releases of this task; ``table``: only releases about it.
        """
        query = {"limit": limit, "after": after, "task": task, "table": table}
        document = yield from self._fetch_document(build_call("list_releases", query=query))
        return read_list(Release, document, "releases")

    @verb
    def get_release(self, name: str) -> Steps[Release]:
        """Return a release's manifest."""
        return (yield from self._fetch_as(Release, build_call("show_release", {"release": name})))

    @verb
    def download(self, release: str, file: str, target: Path | str, *, sha256: str | None = None) -> Steps[Path]:
        """Write one file of a release to ``target``, which must not exist, atomically.

        Args:
            sha256: The manifest's digest in hexadecimal digits; a file with another one is not written.
        Raises:
            RequestError: the target exists or cannot be written. ReleaseError: the file differs from the manifest's.
        """
        return (yield from _download(self, release, file, Path(target), sha256))

    @verb
    def fetch(self, release: str, folder: Path | str) -> Steps[Release]:
        """Write a release into a new ``folder``, comparing each file with the manifest.

        The result is a release as on the server, readable by ``siloquent.open(...).verify`` and ``load_sketch``.

        Raises:
            RequestError: the folder exists, or a name leads out of it. ReleaseError: as in ``download``.
        """
        folder = Path(folder)
        found = yield from self._fetch_as(Release, build_call("show_release", {"release": release}))
        try:
            folder.mkdir()
        except OSError as failed:
            raise RequestError(f"Cannot create {folder}: {failed.strerror}.", fix="choose a new folder") from None
        for one in found.files:
            if Path(one.name).name != one.name:
                raise RequestError("The server names a file outside of the release.", fix="do not use it")
            yield from _download(self, release, one.name, folder / one.name, one.sha256)
        try:
            yield from _download(self, release, MANIFEST, folder / MANIFEST, None)
        except RequestError as refused:
            if refused.code == "not_found":  # an earlier server lists only the files
                return found
            raise
        told = build_release_document(read_manifest(folder))
        if any(found.get(name) != value for name, value in told.items()):
            raise ReleaseError(f"The {MANIFEST} of {release} does not match the server's.", fix="do not use it")
        return found

    @verb
    def verify(self, release: str) -> Steps[ReleaseVerdict]:
        """Compare a release with the ledger; see ``siloquent.Session.verify``. For owners and auditors."""
        told = yield from self._fetch_as(_ReleaseVerdictDocument, build_call("verify_release", {"release": release}))
        # A server of an earlier version names neither package nor files that were not compared.
        package, uncompared = told.get("package"), told.get("uncompared")
        return ReleaseVerdict(
            told.release,
            told.problems,
            told.notes,
            told.compared,
            package if isinstance(package, str) else "",
            tuple(str(name) for name in uncompared) if isinstance(uncompared, list) else (),
        )

    @verb
    def share_release(self, release: str) -> Steps[Release]:
        """Let every analyst of the release's table see it. For owners."""
        return (yield from self._fetch_as(Release, build_call("share_release", {"release": release})))

    @verb
    def delete_release(self, release: str) -> Steps[Release]:
        """Delete a release's values; its manifest remains. For owners."""
        return (yield from self._fetch_as(Release, build_call("delete_release", {"release": release})))

    @verb
    def ask_sketch(
        self, release: str, question: Density | Classify | Anomaly | Modes | Mapping[str, Any]
    ) -> Steps[SketchAnswer]:
        """Answer a question from a released sketch, at no cost, any number of times.

        Args:
            question: ``Density``, ``Classify``, ``Anomaly`` (with ``share``) or ``Modes`` of ``siloquent.sketch``, or
                the body of the route as plain values.
        Raises:
            ReleaseError: the release is not a sketch. RequestError: the question does not fit it, or has an option that
                the route lacks: fetch the release and ask it locally.
        """
        body = question if isinstance(question, Mapping) else _dump_sketch_question(question)
        return (yield from self._fetch_as(SketchAnswer, build_call("ask_release", {"release": release}, body=body)))

    @verb
    def get_dependencies(self, release: str) -> Steps[Dependencies]:
        """Return the dependencies found by a profile over silos, with the protocol's disclosures to each role."""
        return (yield from self._fetch_as(Dependencies, build_call("show_dependencies", {"release": release})))

    @verb
    def adopt(self, release: str, table: str, pick: Sequence[str]) -> Steps[bool]:
        """Write dependencies that hold over all rows into a table's declaration. For owners.

        Args:
            pick: Dependencies as "supplier -> city".
        Returns:
            Whether the declaration has changed.
        """
        body = {"table": table, "pick": list(pick)}
        told = yield from self._fetch_as(
            _AdoptionDocument, build_call("adopt_dependencies", {"release": release}, body=body)
        )
        return told.changed


def _download(face: ApiClient, release: str, file: str, target: Path, sha256: str | None) -> Steps[Path]:
    """Download through a file beside the target, so that an incomplete file never has its name."""
    try:
        with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.") as building:
            yield from face._send(build_call("release_file", {"release": release, "file": file}, sink=building.file))
            building.flush()
            if sha256 is not None and (yield from run_work(partial(_compute_digest, building.name))) != sha256:
                raise ReleaseError(
                    f"{file} does not match the manifest of {release}.", fix="do not use it; fetch again"
                )
            os.link(building.name, target)  # refuses an existing name
            target.chmod(0o666 & ~_read_umask())
    except OSError as failed:
        raise RequestError(f"Cannot write {target}: {failed.strerror}.", fix="choose another file") from None
    return target


def _compute_digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _dump_sketch_question(question: Density | Classify | Anomaly | Modes) -> dict[str, Any]:
    """Return the route's body for a question of ``siloquent.sketch``.

    Raises:
        RequestError: the route lacks one of its options.
    """
    from dataclasses import MISSING, fields

    import numpy as np

    from siloquent.sketch import Anomaly, Classify, Density, Modes

    kinds = {Density: ("density",), Classify: ("classify",), Anomaly: ("anomaly", "share"), Modes: ("modes", "count")}
    if type(question) not in kinds:
        raise RequestError(
            "A server answers Density, Classify, Anomaly and Modes.", fix=run("job fetch", "RELEASE", "-o", "DIR")
        )
    kind, *taken = kinds[type(question)]
    body: dict[str, Any] = {"kind": kind, **{name: getattr(question, name) for name in taken}}
    for one in fields(question):
        if one.name == "points":
            body["points"] = np.asarray(question.points, dtype=np.float64).tolist()  # type: ignore[union-attr]
        elif one.name not in taken and one.default is not MISSING and getattr(question, one.name) != one.default:
            raise RequestError(
                f"The server does not support the option {one.name}.", fix=run("job fetch", "RELEASE", "-o", "DIR")
            )
    if body.get("share", 0) is None:
        raise RequestError(
            "A server accepts an anomaly's share only.", fix=UseOption("share", 0.01, "Anomaly(points, share=0.01)")
        )
    return body
