"""Tables over HTTP: their files, their new rows, and the inspection of uploads."""
