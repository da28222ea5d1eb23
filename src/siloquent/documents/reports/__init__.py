"""The report for a data protection officer, as a document and as a page."""
