"""From counted reports to answers: free, however often, since reports are private already."""

from siloquent.collect.estimate.answering import answer, channels_of
from siloquent.collect.estimate.oddities import Oddity, oddities

__all__ = ["Oddity", "answer", "channels_of", "oddities"]
