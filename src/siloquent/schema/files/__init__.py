"""Table and workspace files: TOML, its models, and the words that people type instead."""
