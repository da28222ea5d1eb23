"""The accuracy of questions that state none, as a table, a workspace or a connection declares it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from siloquent.errors import SchemaError

KEYS = ("error", "confidence", "max_share")
EXAMPLE = 'error = "2 PERCENT", confidence = "0.95", max_share = "0.05"'
MAX_DIGITS = 15


@dataclass(frozen=True, slots=True)
class AccuracyDefaults:
    """The accuracy of questions that state none.

    Attributes:
        error: A text such as ``"2 PERCENT"``: of the declared number of rows for counts and quantiles, of the largest
            possible value for other aggregates.
        confidence: The probability that the errors hold, as text.
        max_share: The part of the remaining budget that such a question may cost at most, as text.
    """

    error: str
    confidence: str = "0.95"
    max_share: str = "0.05"

    def __post_init__(self) -> None:
        words = self.error.split() if isinstance(self.error, str) else []
        if len(words) != 2 or words[1].upper() != "PERCENT":
            raise SchemaError(
                "The error of the defaults must be a share, such as 2 PERCENT.", fix='error = "2 PERCENT"'
            )
        if not 0 < _parse_number(words[0], "error", '"2 PERCENT"') <= 100:
            raise SchemaError("The default error must be above 0 and at most 100 PERCENT.", fix='error = "2 PERCENT"')
        if not 0 < _parse_number(self.confidence, "confidence", '"0.95"') < 1:
            raise SchemaError(
                "The confidence of the defaults must be between 0 and 1 (both excluded).", fix='confidence = "0.95"'
            )
        if not 0 < _parse_number(self.max_share, "max_share", '"0.05"') <= 1:
            raise SchemaError("The max_share of the defaults must be above 0 and at most 1.", fix='max_share = "0.05"')

    @classmethod
    def from_dict(cls, entry: Mapping[str, object]) -> AccuracyDefaults:
        """Return the defaults of a section or JSON object.

        Raises:
            SchemaError: a key is unknown or missing, or a value is not as described above.
        """
        if (unknown := sorted(set(entry) - set(KEYS))) or "error" not in entry:
            what = f"has the unknown key {unknown[0][:40]!r}" if unknown else "states no error"
            raise SchemaError(f"[defaults] {what}. It takes {', '.join(KEYS)}.", fix=EXAMPLE)
        return cls(**entry)  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, str]:
        """Return the defaults as a JSON object."""
        return {name: getattr(self, name) for name in KEYS}

    @property
    def percent(self) -> Decimal:
        """The error as a number of hundredths."""
        return _parse_number(self.error.split()[0], "error", '"2 PERCENT"')

    @property
    def beta(self) -> Fraction:
        """The probability that an error may be exceeded."""
        return 1 - Fraction(_parse_number(self.confidence, "confidence", '"0.95"'))

    @property
    def share(self) -> Decimal:
        """The largest part of the remaining budget, in hundredths."""
        return 100 * _parse_number(self.max_share, "max_share", '"0.05"')


def _parse_number(value: object, key: str, example: str) -> Decimal:
    from siloquent.schema.files.toml import parse_finite

    try:
        number = parse_finite(value) if isinstance(value, str) else None
    except (ValueError, ArithmeticError):
        number = None
    if number is None or len(number.as_tuple().digits) > MAX_DIGITS or not -MAX_DIGITS <= number.adjusted() <= 2:
        raise SchemaError(
            f"The {key} of the defaults must be a number as text, not {str(value)[:40]!r}.", fix=f"{key} = {example}"
        )
    return number
