"""Table 2 of the sharing paper: errors at epsilon 1, .5 and .1, by set, model and method.

Its Credit has the rows of bank telemarketing and the features of credit default, so its figures stand beside both.
"""

from __future__ import annotations

Three = tuple[float, float, float]
_CREDIT = {
    "logistic": {"dp-pred": (0.339, 0.352, 0.418), "own": (0.321, 0.392, 0.499), "all": (0.277, 0.294, 0.301)},
    "svm": {"dp-pred": (0.347, 0.366, 0.379), "own": (0.358, 0.404, 0.409), "all": (0.289, 0.308, 0.310)},
}
TABLE: dict[str, dict[str, dict[str, Three]]] = {
    "adult": {
        "logistic": {"dp-pred": (0.232, 0.245, 0.293), "own": (0.266, 0.301, 0.336), "all": (0.212, 0.226, 0.246)},
        "svm": {"dp-pred": (0.253, 0.262, 0.269), "own": (0.267, 0.269, 0.268), "all": (0.209, 0.224, 0.239)},
    },
    "credit": _CREDIT,
    "bank": _CREDIT,
    "debrecen": {
        "logistic": {"dp-pred": (0.334, 0.349, 0.389), "own": (0.380, 0.411, 0.434), "all": (0.279, 0.294, 0.345)},
        "svm": {"dp-pred": (0.441, 0.449, 0.456), "own": (0.397, 0.431, 0.434), "all": (0.311, 0.322, 0.346)},
    },
    "bike": {
        "linear": {"dp-pred": (0.270, 0.281, 0.296), "own": (0.206, 0.225, 0.220), "all": (0.127, 0.154, 0.157)},
    },
    "news": {
        "linear": {"dp-pred": (0.176, 0.178, 0.185), "own": (0.121, 0.172, 0.175), "all": (0.079, 0.095, 0.096)},
    },
}
"""By set and model: committees of private predictors, PFDS(s) with own labels, PFDS with everybody's."""


def printed(name: str, model: str, method: str, place: int) -> float | None:
    """The printed figure at the ``place``-th epsilon; None where the table has none."""
    figures = TABLE[name].get(model, {}).get(method)
    return None if figures is None else figures[place]
