"""The only room where true rows meet noise: on devices, or simulated; and where their reports are kept and counted."""

from siloquent.collect.measure.device import AnotherDesign, Client, Device
from siloquent.collect.measure.memory import FileMemory, Held, held
from siloquent.collect.measure.simulate import Rows, one_row_each, perturb_all, to_bytes
from siloquent.collect.measure.star import attached
from siloquent.collect.measure.store import ReportStore
from siloquent.collect.measure.tally import Tally, tally

__all__ = [
    "AnotherDesign",
    "Client",
    "Device",
    "FileMemory",
    "Held",
    "ReportStore",
    "Rows",
    "Tally",
    "attached",
    "held",
    "one_row_each",
    "perturb_all",
    "tally",
    "to_bytes",
]
