"""Plans that draw from earlier answers."""
