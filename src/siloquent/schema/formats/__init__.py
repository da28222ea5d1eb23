"""The way values stand in a source, as a table file declares it, and the types that can be read from each kind."""
