"""The demo of a synthetic table: the plan, one run, its report, rows at no cost, and constraints that all hold."""

from __future__ import annotations

WHAT = ("visits", "--epsilon", "0.5", "--targets", "readmitted", "--quality", "fast", "--rows", "5000")

SYNTH_STEPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Students need a table of visits to practise on: nobody's visits, but every diagnosis in its chapter and no\n"
        "longer stay cheaper than a shorter one. The plan: the price, how each rule is kept. No row is read for it.",
        ("synth", "plan", *WHAT),
    ),
    (
        "One run, one charge. Rows are drawn from a model of noisy counts, so that no hard rule can be broken.",
        ("synth", "run", *WHAT, "--key", "students", "--yes", "-o", "students"),
    ),
    ("What a reader should know about its quality.", ("synth", "report", "students")),
    (
        "More rows, only of young people. The model is made of released numbers, so this costs nothing.",
        ("synth", "rows", "students", "--rows", "5", "--where", "age < 40 and readmitted = true"),
    ),
    ("Count it yourself: all pairs of rows against all rules, in both directions.", ("synth", "check", "students")),
)
