"""A model and choices → results. Options, the table of methods, prepare, solve, assemble."""
