"""Models and rows from released measurements: free post-processing."""
