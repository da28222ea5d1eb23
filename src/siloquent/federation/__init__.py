"""Floor 3, peers: messages, channels, relay, roles and sums over silos; no rows, tables or tasks.

A task writes each role's part as plain code over a ``Channel``: it sends, waits, and ends. The layers below (a relay
that can open nothing, sealed messages, a journal that survives a kill) are the same for every task.
"""
