"""Text files as sources: unpacked, decoded, and read line by line."""
