"""SQL for engines: values in declared formats, the index functions, and maps of cells."""
