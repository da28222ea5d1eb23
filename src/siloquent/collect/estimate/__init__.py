"""From counted reports to answers: free, however often, since reports are private already."""

from siloquent.collect.estimate.answering import answer, channels_of

__all__ = ["answer", "channels_of"]
