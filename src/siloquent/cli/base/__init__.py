"""Parts that every command shares: options, output, paths, consent, problems."""
