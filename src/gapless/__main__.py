"""`python -m gapless`: the command line where no script is on the path."""

from gapless.cli import main

main()
