"""Planted faults: each changes one place of a copy of the library, and the tests that cover it must notice.

``places``: which files, and how many mutants of each place. ``mutate``: the changes of a source file. ``tracing``:
which test runs which line. ``coverage``: the map of all that, kept between runs. ``planting``: the copy, the tests,
the verdict; ``verdicts``: those of earlier runs. ``named.toml``: faults that a review found by hand.
``equivalents.toml``: changes that change nothing.
"""
