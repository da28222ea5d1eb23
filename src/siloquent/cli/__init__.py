"""The command line: it parses, calls a verb and shows the result. It computes nothing and reads no private row."""
