"""Hard constraints kept on drawn rows, at no cost."""
