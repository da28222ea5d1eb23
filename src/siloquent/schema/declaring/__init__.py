"""The questions that lead from a source's column names to a table file. This package never reads rows."""

from siloquent.schema.declaring.answers import GivenAnswers, read_answers, write_answers
from siloquent.schema.declaring.attributes import declare_attribute
from siloquent.schema.declaring.columns import ColumnHeader, RawSource
from siloquent.schema.declaring.compose import compose_table_file
from siloquent.schema.declaring.declaration import DeclarationDraft
from siloquent.schema.declaring.declared_table import Declaration
from siloquent.schema.declaring.draft import TableDraft, start_draft
from siloquent.schema.declaring.meanings import parse_meaning
from siloquent.schema.declaring.names import derive_table_name
from siloquent.schema.declaring.questions import DeclarationQuestion, find_next_question, list_open_questions
from siloquent.schema.meaning import Meaning, describe_meaning

__all__ = [
    "ColumnHeader",
    "Declaration",
    "DeclarationDraft",
    "DeclarationQuestion",
    "GivenAnswers",
    "Meaning",
    "RawSource",
    "TableDraft",
    "compose_table_file",
    "declare_attribute",
    "derive_table_name",
    "describe_meaning",
    "find_next_question",
    "list_open_questions",
    "parse_meaning",
    "read_answers",
    "start_draft",
    "write_answers",
]
