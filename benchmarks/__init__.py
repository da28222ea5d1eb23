"""Our figures beside the published ones and beside the baseline that runs in the same process.

``python -m benchmarks TASK [--only ROW] [--quick] [--json FILE] [--data DIR]`` prints one table; the exit status is 1
if a row misses its goal, or if one broke. No claim is made in the docs without a row here.

**To add rows** to a task, put a module into its folder, ``benchmarks/TASK/subject.py`` (say ``explore/latency.py``):

    def rows(options: Options) -> Iterator[Row]:
        if options.wants("draws-laplace"):
            yield Row("draws-laplace", ours=measure(), goal=0.5, better="lower", unit="CPU s", how="10^6 draws, ...")

- ``rows`` is a generator: each row is measured when it is asked for, and one that raises is shown as failed with the
  reason. An error ends its own module only.
- A row's name is letters and digits with hyphens and starts with its subject. ``options.wants(name)`` is false when
  ``--only`` asks for others: measure nothing then. Rows that take long are left out when ``options.quick`` is true; the
  quick rows of a task take under a minute together.
- A time is a ratio of medians within one process, both sides taking turns, or CPU seconds where an issue names them.
  Quality is a mean over seeds. ``how`` states data, rows, epsilon, delta, seeds: what a stranger needs to repeat it.
- ``paper`` is the published figure, ``peer`` the baseline that ran here, ``goal`` the bar; leave out what there is not.
  A row without a goal cannot fail.
"""

from benchmarks.row import Options, Row

__all__ = ["Options", "Row"]
