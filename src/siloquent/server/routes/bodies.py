"""Request bodies: closed models, so that a misspelt field is refused and not ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from siloquent.foreign.documents import is_portable
from siloquent.foreign.numbers import is_plain_number
from siloquent.schema import AccuracyDefaults
from siloquent.server.access.tokens import Role
from siloquent.server.jobs.queue import NOT_PORTABLE

Text = Annotated[str, Field(min_length=1, max_length=65_536)]
Name = Annotated[str, Field(min_length=1, max_length=64)]
Amount = Annotated[str, Field(min_length=1, max_length=64, description="In the account's epsilon or rho, as text.")]


def _require_plain(text: object) -> object:
    if isinstance(text, str) and not is_plain_number(text):
        raise ValueError("digits are 0 to 9, with nothing between them")
    return text


PlainInt = Annotated[int, BeforeValidator(_require_plain)]
"""A whole number in a query string."""


class Body(BaseModel):
    """A closed model."""

    model_config = ConfigDict(extra="forbid", strict=True)


class DefaultsBody(Body):
    """The accuracy of a question that states none: ``2 PERCENT``, with its confidence, and its share of the budget."""

    error: Amount
    confidence: Amount = "0.95"
    max_share: Amount = "0.05"


class QuestionBody(Body):
    """A question in SQL or BIN, and the accuracy that stands in if it states none."""

    sql: Text
    defaults: DefaultsBody | None = None

    def build_defaults(self) -> AccuracyDefaults | None:
        """Build the connection's defaults; None if the table's or the workspace's hold."""
        told = self.defaults
        return None if told is None else AccuracyDefaults(told.error, told.confidence, told.max_share)


class AnswerBody(QuestionBody):
    """A question and the most that it may cost."""

    max_cost: Amount | None = None


class JobPriceBody(Body):
    """Work that takes longer than an answer, to be priced."""

    task: Name
    spec: dict[str, Any]

    @field_validator("spec")
    @classmethod
    def _is_plain(cls, spec: dict[str, Any]) -> dict[str, Any]:
        """Refuse values that cannot be written again as JSON in UTF-8."""
        if not is_portable(spec):
            raise ValueError(NOT_PORTABLE)
        return spec


class JobBody(JobPriceBody):
    """Work that takes longer than an answer, and the most that it may cost."""

    max_cost: Amount | None = None


class TableBody(Body):
    """A table file."""

    toml: Annotated[str, Field(min_length=1, max_length=1_048_576)]
    new_epoch: (
        Annotated[str, Field(min_length=1, max_length=100, description="The statement that opens one.")] | None
    ) = None


class RefreshBody(Body):
    """New rows of a table; without ``source``, its own source holds them already."""

    source: Annotated[str, Field(min_length=1, max_length=1_000, description="As a table file names it.")] | None = None
    despite_findings: Annotated[bool, Field(description="Take rows in which the check finds problems, too.")] = False


class TokenBody(Body):
    """An account for somebody."""

    name: Name
    role: Role
    tables: Annotated[list[Name], Field(max_length=1_000)] = []
    days: Annotated[int, Field(ge=1, le=365)] = 90


class AdoptionBody(Body):
    """Dependencies to declare, as "supplier -> city"."""

    table: Name
    pick: Annotated[list[Annotated[str, Field(min_length=1, max_length=1_000)]], Field(min_length=1, max_length=300)]


class ApprovalBody(Body):
    """An owner's word on a session."""

    decision: Literal["approved", "refused"]


class ReleaseQuestion(Body):
    """A question to a sketch; ``points``: one list of numbers a point, in the order of its features."""

    kind: Literal["density", "classify", "anomaly", "modes"]
    points: Annotated[list[Annotated[list[float], Field(min_length=1, max_length=256)]], Field(max_length=10_000)] = []
    share: Annotated[float, Field(gt=0, lt=1)] = 0.01
    count: Annotated[int, Field(ge=1, le=1_000)] = 5
