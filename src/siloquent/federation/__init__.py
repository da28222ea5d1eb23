"""Floor 3: peers. Messages, channels, relay, roles and sums over silos; never rows, tables or tasks.

A task writes each role's part as plain code over a ``Channel``: it sends, waits, and ends. What happens below (a relay
that knows nothing, sealed messages, a journal that survives a kill) is the same for every task.
"""
