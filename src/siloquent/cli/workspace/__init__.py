"""Commands that set up, check and keep a workspace."""
