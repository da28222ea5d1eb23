"""What a maintainer runs: throw-away servers, checks of the tree, pages made from the code."""
