"""Linear and generalised linear models from noisy moments."""
