"""`python -m outland` is the command line."""

from outland.cli import main

main()
