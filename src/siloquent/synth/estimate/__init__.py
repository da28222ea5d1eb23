"""From what was released to models and rows: free post-processing."""
