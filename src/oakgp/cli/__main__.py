"""``python -m oakgp.cli``."""

from oakgp.cli import main

main()
