"""The only package where true rows meet noise, on devices or simulated; it also stores and counts reports."""

from siloquent.collect.measure.device import AnotherDesign, Client, Device
from siloquent.collect.measure.memory import FileMemory, UserMemory, lock_memories
from siloquent.collect.measure.simulate import Rows, build_single_row_users, encode_batch, perturb_all
from siloquent.collect.measure.star_join import join_dimensions
from siloquent.collect.measure.store import ReportStore
from siloquent.collect.measure.tally import Tally, tally

__all__ = [
    "AnotherDesign",
    "Client",
    "Device",
    "FileMemory",
    "ReportStore",
    "Rows",
    "Tally",
    "UserMemory",
    "build_single_row_users",
    "encode_batch",
    "join_dimensions",
    "lock_memories",
    "perturb_all",
    "tally",
]
