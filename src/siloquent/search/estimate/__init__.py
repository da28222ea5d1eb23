"""From offers and a request's moments to a ranking, a model and its intervals: free post-processing of releases."""
