"""Roles and their keys: certificates, bundles, rosters."""
