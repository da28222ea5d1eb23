"""Graphical models of noisy marginals: triangulation, junction trees, belief propagation, fitting. Arrays only."""
