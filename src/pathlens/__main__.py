"""`python -m pathlens`: the command line."""

from pathlens.cli import main

main()
