"""Room 9: texts → vectors that explain themselves; rank, and an index on disk."""
