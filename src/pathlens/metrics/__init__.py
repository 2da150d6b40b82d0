"""Explanations and a model → numbers: how far scores can be believed (METHODS in docs/faithfulness.md)."""
