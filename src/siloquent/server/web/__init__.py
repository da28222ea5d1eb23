"""Pages for browsers: forms that work without a script, drawn from the same documents as the API's."""
