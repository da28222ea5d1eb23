"""Small inputs that would fill a machine."""
