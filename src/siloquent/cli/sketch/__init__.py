"""Commands of sketches."""
