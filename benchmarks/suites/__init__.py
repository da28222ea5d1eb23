"""Suites of questions as analysts type them: the tables, the questions, and the judge that asks them."""
