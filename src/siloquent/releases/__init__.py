"""Releases: answers as files, with a manifest that says what was promised and a receipt that the ledger confirms."""

from siloquent.releases.folder import (
    FORMATS,
    ReleaseVerdict,
    Rendered,
    list_folders,
    list_releases,
    read_release,
    release_folder,
    verify_release,
    write_release,
    write_table,
)
from siloquent.releases.manifest import Manifest, ReleaseFile, guarantee_to_plain, read_manifest

__all__ = [
    "FORMATS",
    "Manifest",
    "ReleaseFile",
    "ReleaseVerdict",
    "Rendered",
    "guarantee_to_plain",
    "list_folders",
    "list_releases",
    "read_manifest",
    "read_release",
    "release_folder",
    "verify_release",
    "write_release",
    "write_table",
]
