"""Room 8: results as pictures. `terminal`, `html` and `figure` are the doors; they share `palette`."""
