"""siloquent: learn from data that you may not see."""
