"""Trials that tests run a little of and benchmarks a lot."""
