"""explore: queries with a requested error bound, at the least privacy cost.

Source: "APEx" (thesis chapter 3), with the corrections of docs/decisions.

Source: "APEx" (thesis chapter 3), with the corrections of docs/decisions.
"""

from typing import TYPE_CHECKING

from siloquent.deprecation import keep_old_names
from siloquent.explore.default_accuracy import state_accuracy
from siloquent.explore.examples import list_sample_questions, read_question
from siloquent.explore.history_entries import HistoryEntry, list_history
from siloquent.explore.plan.explain import Explanation
from siloquent.explore.release import write_answer_release
from siloquent.explore.reusable_answers import find_changed_entry
from siloquent.explore.spec import (
    Answer,
    Query,
    average_of,
    count,
    deviation_of,
    distinct_of,
    median_of,
    parse,
    quantile_of,
    sum_of,
    variance_of,
)
from siloquent.explore.suggestions import suggest_affordable
from siloquent.explore.task import PortablePlan, PreparedQuery, answer, answer_planned, explain, prepare

__all__ = [
    "Answer",
    "Explanation",
    "HistoryEntry",
    "PortablePlan",
    "PreparedQuery",
    "Query",
    "answer",
    "answer_planned",
    "average_of",
    "count",
    "deviation_of",
    "distinct_of",
    "explain",
    "find_changed_entry",
    "list_history",
    "list_sample_questions",
    "median_of",
    "parse",
    "prepare",
    "quantile_of",
    "read_question",
    "state_accuracy",
    "suggest_affordable",
    "sum_of",
    "variance_of",
    "write_answer_release",
]

if not TYPE_CHECKING:  # the names of 0.1
    __getattr__ = keep_old_names(
        __name__,
        {
            "Asked": "HistoryEntry",
            "CompositeExplanation": "Explanation",
            "changed_since": "find_changed_entry",
            "history": "list_history",
            "offering": "suggest_affordable",
            "release_of": "write_answer_release",
        },
    )
