"""Units that several tables share: declared once in ``units/NAME.toml``, and reached from each table along links."""
