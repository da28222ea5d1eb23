"""What is asked of a synthesis and what it answers; no rows here."""
