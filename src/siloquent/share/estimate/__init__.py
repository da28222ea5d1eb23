"""Models, rows and advice from releases (and, locally, own rows). No noise and no ledger here."""

from siloquent.share.estimate.advise import Advice, Measures, PairedDifference, advise
from siloquent.share.estimate.pool import Pool, check_together, pool_releases
from siloquent.share.estimate.shared import fit_shared_scores
from siloquent.share.estimate.stack import Fit, fit_alone, fit_stacked
from siloquent.share.estimate.synthesize import build_table, draw_marginal_rows
from siloquent.share.estimate.vote import draw_tree_rows, fit_tree_scores
from siloquent.share.linear_score import LinearScore

__all__ = [
    "Advice",
    "Fit",
    "LinearScore",
    "Measures",
    "PairedDifference",
    "Pool",
    "advise",
    "build_table",
    "check_together",
    "draw_marginal_rows",
    "draw_tree_rows",
    "fit_alone",
    "fit_shared_scores",
    "fit_stacked",
    "fit_tree_scores",
    "pool_releases",
]
