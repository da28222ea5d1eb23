"""The relay: a mailbox that stores and forwards. It sees names, steps, sizes and times, and can open nothing."""
