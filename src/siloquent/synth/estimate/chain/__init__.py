"""The engine ``chain``: its learner, model and rows."""
