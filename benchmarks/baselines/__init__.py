"""Methods that sketches are measured against, written from their papers, and the data they run on.

Their noise is floating-point noise from a seeded generator: good enough to measure errors, not to protect anybody.
"""
