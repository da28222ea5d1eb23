"""Commands of search over other silos' offers."""
