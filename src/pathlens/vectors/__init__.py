"""Texts → vectors that explain themselves; rank, and an index on disk."""
