"""Commands of collections under local privacy."""
