"""What the doors say, as documents: the command line and the server speak with one voice."""
