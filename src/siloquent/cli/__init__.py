"""The command line: it parses, calls a verb and shows what came back. It computes nothing and reads no private row."""
