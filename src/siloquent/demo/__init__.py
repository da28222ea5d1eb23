"""The demo: a fictitious clinic and a sequence of queries to it. No row belongs to a real person."""

from siloquent.demo.clinic import DEMO_MARK, SEED, create_clinic
from siloquent.demo.story import Step, story
from siloquent.demo.visits import check_visits, make_visits

__all__ = ["DEMO_MARK", "SEED", "Step", "check_visits", "create_clinic", "make_visits", "story"]
