"""explore: questions with the error bound that you ask for, at the least privacy cost.

Source: "APEx" (thesis chapter 3), with the corrections of docs/decisions.
"""

from siloquent.explore.plan.explain import Explanation
from siloquent.explore.release import release_of
from siloquent.explore.spec import Answer, Query, count, parse, sum_of
from siloquent.explore.task import answer, explain

__all__ = ["Answer", "Explanation", "Query", "answer", "count", "explain", "parse", "release_of", "sum_of"]
