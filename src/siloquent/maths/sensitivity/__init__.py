"""The largest change of linear answers by one unit."""
