"""Paths through real words: DIG and UDIG."""
