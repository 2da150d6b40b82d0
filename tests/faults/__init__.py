"""Faults, as a standing exam: what breaks is broken on purpose, and what is left is held against an undisturbed run.

`make faults` (python -m tests.faults) runs all of it at full size and writes experiments/rows/faults.jsonl and the tables of
docs; tests/ends/test_faults.py runs all of it at small size.

`scene` the places, sizes and works · `folders` faults of runs and indexes · `server` faults of the server · `exam` the table
"""
