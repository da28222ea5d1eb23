"""Codecs of releases: written as folders, and rendered again from the ledger's contents for comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from siloquent.errors import ReleaseError, SiloquentError
from siloquent.releases.kept import FileTest, KeptMeasurement
from siloquent.releases.manifest import Manifest, ReleaseFile
from siloquent.releases.verification import ExpectedFiles
from siloquent.releases.writer import write_files

if TYPE_CHECKING:
    import pyarrow as pa

    from siloquent.ledger import SettledAnswer
    from siloquent.schema import TableSchema
    from siloquent.session import WorkspaceSession

R = TypeVar("R")


class ReleaseCodec(Protocol):
    """The releases of one task, as a session's ``verify`` compares them with the ledger.

    ``schema``: the current declaration of the account's epoch. ``stored``: the entry that the release's receipt names.

    Privacy:
        Post-processing of the ledger's contents: no row is read, nothing is charged.
    """

    def render_stored(
        self, session: WorkspaceSession, manifest: Manifest, schema: TableSchema, stored: SettledAnswer
    ) -> list[ExpectedFiles] | None:
        """Render the possible releases of ``stored``: none if that cannot be repeated; None if it is another task's."""

    def find_kept(self, stored: SettledAnswer) -> KeptMeasurement | None:
        """Return what the ledger keeps of the release in ``stored``, by any rules; None if it is another task's."""

    def confirms_declaration(
        self, session: WorkspaceSession, manifest: Manifest, schema: TableSchema, stored: SettledAnswer
    ) -> bool:
        """Return whether the ledger confirms the declaration that ``manifest`` names, or cannot say."""


@dataclass(frozen=True, slots=True)
class FolderCodec(Generic[R]):
    """The codec of releases whose files all follow from one stored measurement.

    ``build_contents``: by file name, in display order: a table or bytes. ``assemble``: the release in a ledger entry;
    it raises ``unrepeatable`` for another task's. ``normalize``: the canonical bytes of a file, so that files which
    differ only in compression are equal. ``keep``: the tests of what the ledger keeps, which hold by whatever rules the
    rest was made; None for another task's. ``build_meanings``: from contents, tests that hold by every rendering rule.
    ``build_near``: from contents, tests that hold on every processor. ``build_earlier``: the contents as earlier
    versions of the same rules wrote them, if otherwise; else None.
    """

    build_manifest: Callable[[R], Manifest]
    list_files: Callable[[R], tuple[ReleaseFile, ...]]
    build_contents: Callable[[R], Mapping[str, pa.Table | bytes]]
    assemble: Callable[[TableSchema, SettledAnswer], R]
    normalize: Callable[[bytes], bytes] = bytes
    unrepeatable: type[SiloquentError] = ReleaseError
    keep: Callable[[SettledAnswer], KeptMeasurement | None] = lambda stored: None
    build_meanings: Callable[[Mapping[str, pa.Table | bytes]], Mapping[str, FileTest]] = lambda contents: {}
    build_near: Callable[[Mapping[str, pa.Table | bytes]], Mapping[str, FileTest]] = lambda contents: {}
    build_earlier: Callable[[R], Mapping[str, pa.Table | bytes] | None] = lambda release: None

    def write(self, release: R, folder: Path) -> Path:
        """Write ``release`` as ``folder``, completely or not at all; an equal one that exists already is kept.

        Raises:
            ReleaseError: Another release is there, or the disk refuses.
        """
        return write_files(folder, self.build_manifest(release), self.list_files(release), self.build_contents(release))

    def render(self, release: R) -> ExpectedFiles:
        """Return the files that ``write`` would write for ``release``."""
        return self._render_contents(release, self.build_contents(release))

    def _render_contents(self, release: R, built: Mapping[str, pa.Table | bytes]) -> ExpectedFiles:
        contents: dict[str, pa.Table | FileTest] = {
            name: partial(self._is_same, content) if isinstance(content, bytes) else content
            for name, content in built.items()
        }
        return ExpectedFiles(
            self.build_manifest(release),
            self.list_files(release),
            contents,
            meanings=self.build_meanings(built),
            near=self.build_near(built),
        )

    def _is_same(self, content: bytes, data: bytes) -> bool:
        try:
            return self.normalize(data) == content
        except ReleaseError:
            return False

    def render_stored(
        self, session: WorkspaceSession, manifest: Manifest, schema: TableSchema, stored: SettledAnswer
    ) -> list[ExpectedFiles] | None:
        """Render the release in ``stored``; None if it is another task's, or one of several in the folder."""
        if manifest.receipt.get("parts", 1) != 1:  # the others are perhaps in other ledgers
            return None
        try:
            release = self.assemble(schema, stored)
            earlier = self.build_earlier(release)
            rendered = [self.render(release)]
            return rendered if earlier is None else [*rendered, self._render_contents(release, earlier)]
        except self.unrepeatable:
            return None

    def find_kept(self, stored: SettledAnswer) -> KeptMeasurement | None:
        """Return what the ledger keeps of the release in ``stored``; None if it is another task's."""
        return self.keep(stored)

    def confirms_declaration(
        self, session: WorkspaceSession, manifest: Manifest, schema: TableSchema, stored: SettledAnswer
    ) -> bool:
        """Return True: the ledger entry of such a release does not depend on the current declaration."""
        return True
