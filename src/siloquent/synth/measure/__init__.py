"""Measurement, where rows meet noise. Each step is released once, written to the journal, and read by the next one."""

from siloquent.synth.measure.journal import StepJournal
from siloquent.synth.measure.run import Learner, measure

__all__ = ["Learner", "StepJournal", "measure"]
