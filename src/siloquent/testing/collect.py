"""The reports of many users' devices at once: the distribution of a device's reports, in compiled code."""

from siloquent.collect import Rows, build_single_row_users, encode_batch, perturb_all

__all__ = ["Rows", "build_single_row_users", "encode_batch", "perturb_all"]
