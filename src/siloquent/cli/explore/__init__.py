"""Commands that price and answer questions."""
