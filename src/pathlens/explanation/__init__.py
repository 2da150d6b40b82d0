"""Room 6: the frozen results."""
