"""Commands of federations."""
