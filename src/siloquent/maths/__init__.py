"""Arrays in, arrays out: workloads, sensitivities, exact tails, strategies and their calibration.

- ``workloads``: whole matrices and their shapes (nested, disjoint); ``sensitivity``: the largest change by one unit.
- ``tails``, ``order``, ``sums``: laws of one noise, of the largest among many, of weighted sums.
- ``promises``: from an error bound to the largest noise that keeps it, exactly; ``calibration``: the same for noise
  that answers share.
- ``strategies``: trees, p-Identity, factorisations, and their whole, quantised forms.

Nothing here knows rows, declarations or privacy; heavy libraries are imported where they are used.
"""
