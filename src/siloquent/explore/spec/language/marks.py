"""The mark between a table's name and an attribute's, where both are kept until a session knows the tables."""

MARK = "\ue000"
