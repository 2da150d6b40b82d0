"""Ratios of two things measured in one run. `make bench`, or `python -m benchmarks [ROW …] [--quick] [--fresh]`."""
