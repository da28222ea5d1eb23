"""Wrong questions, declarations and command lines, and the judge of what refusals of them offer."""
