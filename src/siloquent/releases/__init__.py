"""Releases: answers as files, with a manifest that states the guarantee and a receipt that the ledger confirms."""

from typing import TYPE_CHECKING

from siloquent.deprecation import keep_old_names
from siloquent.releases.folder import (
    FORMATS,
    get_release_folder,
    list_folders,
    list_releases,
    read_release,
    write_release,
    write_table,
)
from siloquent.releases.kept import KeptMeasurement, keep_measurement
from siloquent.releases.manifest import Manifest, ReleaseFile, guarantee_to_dict, read_manifest
from siloquent.releases.verification import ExpectedFiles, ReleaseVerdict, verify_release

__all__ = [
    "FORMATS",
    "ExpectedFiles",
    "KeptMeasurement",
    "Manifest",
    "ReleaseFile",
    "ReleaseVerdict",
    "get_release_folder",
    "guarantee_to_dict",
    "keep_measurement",
    "list_folders",
    "list_releases",
    "read_manifest",
    "read_release",
    "verify_release",
    "write_release",
    "write_table",
]

if not TYPE_CHECKING:  # the names of 0.1
    __getattr__ = keep_old_names(
        __name__,
        {
            "Rendered": "ExpectedFiles",
            "guarantee_to_plain": "guarantee_to_dict",
            "release_folder": "get_release_folder",
        },
    )
