"""python -m tests.faults [--size small|full] [words …]: the exam, or the questions with one of these words in them."""

import argparse
import sys

from tests.faults.exam import sit
from tests.faults.scene import SIZES

if __name__ == "__main__":
    reader = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    reader.add_argument("--size", choices=SIZES, default="full")
    reader.add_argument("words", nargs="*")
    given = reader.parse_args()
    sys.exit(1 if sit(given.size, given.words) else 0)
