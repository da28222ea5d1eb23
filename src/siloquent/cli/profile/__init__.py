"""Commands of dependency profiles."""
