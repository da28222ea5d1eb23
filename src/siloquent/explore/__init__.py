"""explore: questions with the error bound that you ask for, at the least privacy cost.

Source: "APEx" (thesis chapter 3), with the corrections of docs/decisions.
"""

from siloquent.explore.asked import Asked, history
from siloquent.explore.examples import reading
from siloquent.explore.offers import offering
from siloquent.explore.plan.explain import Explanation
from siloquent.explore.plan.wholes import CompositeExplanation
from siloquent.explore.release import release_of
from siloquent.explore.spec import (
    Answer,
    Query,
    average_of,
    count,
    deviation_of,
    median_of,
    parse,
    quantile_of,
    sum_of,
    variance_of,
)
from siloquent.explore.task import answer, changed_since, explain

__all__ = [
    "Answer",
    "Asked",
    "CompositeExplanation",
    "Explanation",
    "Query",
    "answer",
    "average_of",
    "changed_since",
    "count",
    "deviation_of",
    "explain",
    "history",
    "median_of",
    "offering",
    "parse",
    "quantile_of",
    "reading",
    "release_of",
    "sum_of",
    "variance_of",
]
