"""Documents with prices, before anything is spent."""
