"""Commands of shared models and data."""
