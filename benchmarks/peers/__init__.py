"""Other systems on the same rows and question, each in a virtual environment of its own.

A script here takes the Parquet file and a number of rounds and prints one line of JSON: the median CPU milliseconds of
the process (children included) and the median wall milliseconds of a warm run. None of it is imported by siloquent.
"""
