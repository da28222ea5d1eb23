"""Real implementations in memory, for tests of what is built on siloquent; nothing else in siloquent imports them.

One module for each package: ``ledger``, ``federation``, ``profile``, ``collect``. They keep every promise of the others
but one: they are lost when the process ends.
"""
