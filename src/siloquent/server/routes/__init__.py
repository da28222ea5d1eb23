"""The routes of the API, one file a subject; each is a body, a verb and a document."""
