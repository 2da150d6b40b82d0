"""Room 11: questions that take several runs."""
