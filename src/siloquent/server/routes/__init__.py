"""The routes of the API, one file per subject; each has a body, a verb and a document."""
