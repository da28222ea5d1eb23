"""The specification of learning from releases: a frozen value that checks itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from siloquent.errors import RequestError
from siloquent.foreign.spec_types import check_types

if TYPE_CHECKING:
    from siloquent.share.spec.release import ShareRelease

ModelKind = Literal["logistic", "svm", "linear"]
MODELS = ("logistic", "svm", "linear")


@dataclass(frozen=True, slots=True, eq=False)
class LearnSpec:
    """A model from the others' ``releases`` and, with ``use_own``, from own rows, which stay local.

    ``model`` None: logistic for classes, linear for numbers. ``folds``: of cross-validation on own rows.
    """

    table: str
    label: str
    releases: tuple[ShareRelease, ...]
    model: ModelKind | None = None
    use_own: bool = True
    folds: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        check_types(self, RequestError)
        if not self.releases:
            raise RequestError("Learning needs at least one release.", fix="name the others' releases")
        if self.model not in (None, *MODELS):
            raise RequestError(f"model must be one of {', '.join(MODELS)}, not {self.model!r}.")
        if not isinstance(self.folds, int) or not 2 <= self.folds <= 20:
            raise RequestError(f"folds must be between 2 and 20, not {self.folds!r}.")
