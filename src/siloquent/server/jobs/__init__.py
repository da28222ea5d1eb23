"""Jobs: their queue, processes and specs."""
