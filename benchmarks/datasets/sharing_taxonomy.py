"""A public taxonomy of Adult's categories, two levels, for the baseline that needs one; numbers are split anywhere."""

from __future__ import annotations

from benchmarks.baselines.diffgen import Column
from benchmarks.datasets.sharing_tables import Set

GROUPS: dict[str, tuple[tuple[str, ...], ...]] = {
    "workclass": (("Federal-gov", "Local-gov", "State-gov"), ("Self-emp-inc", "Self-emp-not-inc"), ("Private",)),
    "education": (
        ("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th"),
        ("HS-grad", "Some-college", "Assoc-acdm", "Assoc-voc"),
        ("Bachelors", "Masters", "Doctorate", "Prof-school"),
    ),
    "marital_status": (("Married-AF-spouse", "Married-civ-spouse"), ("Never-married",)),
    "occupation": (
        ("Adm-clerical", "Exec-managerial", "Prof-specialty", "Sales", "Tech-support"),
        ("Craft-repair", "Machine-op-inspct", "Transport-moving", "Handlers-cleaners", "Farming-fishing"),
    ),
    "relationship": (("Husband", "Wife"), ("Own-child", "Other-relative")),
    "race": (("White",),),
    "native_country": (
        ("United-States", "Canada", "Outlying-US(Guam-USVI-etc)", "Puerto-Rico"),
        ("Cambodia", "China", "Hong", "India", "Iran", "Japan", "Laos", "Philippines", "Taiwan", "Thailand", "Vietnam"),
        ("England", "France", "Germany", "Greece", "Holand-Netherlands", "Hungary", "Ireland", "Italy", "Poland",
         "Portugal", "Scotland", "Yugoslavia"),
    ),
}  # fmt: skip
"""What is not named makes a last group of its own."""


def columns_of(found: Set) -> tuple[Column, ...]:
    """Adult's features as the baseline takes them."""
    return tuple(_column(attribute.name, attribute.values, attribute.size) for attribute in found.attributes[:-1])


def _column(name: str, values: tuple[str, ...], size: int) -> Column:
    if not values:
        return Column(size)
    groups = [tuple(values.index(value) for value in group) for group in GROUPS.get(name, ())]
    rest = tuple(place for place in range(size) if not any(place in group for group in groups))
    return Column(size, tuple(group for group in (*groups, rest) if group))
