"""From releases (and, at home, own rows) to models, rows and advice. No noise and no ledger here."""

from siloquent.share.estimate.advise import Advice, Difference, Measures, advise
from siloquent.share.estimate.pool import Pool, check_together, pool
from siloquent.share.estimate.shared import shared_scores
from siloquent.share.estimate.stack import Fit, fit_alone, fit_stacked
from siloquent.share.estimate.synthesize import as_table, rows_of_marginals
from siloquent.share.estimate.vote import rows_of_trees, scores_of_trees
from siloquent.share.scores import Scores

__all__ = [
    "Advice",
    "Difference",
    "Fit",
    "Measures",
    "Pool",
    "Scores",
    "advise",
    "as_table",
    "check_together",
    "fit_alone",
    "fit_stacked",
    "pool",
    "rows_of_marginals",
    "rows_of_trees",
    "scores_of_trees",
    "shared_scores",
]
