"""JSON documents shared by the command line and the server."""
