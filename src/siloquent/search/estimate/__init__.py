"""A ranking, a model and its intervals from offers and a request's moments: free post-processing of releases."""
