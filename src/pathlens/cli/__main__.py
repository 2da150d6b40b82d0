"""`python -m pathlens.cli`."""

from pathlens.cli import main

main()
