"""The frozen results."""
