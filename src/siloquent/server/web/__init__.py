"""Pages for browsers: forms that work without a script, rendered from the same documents as the API's."""
