"""``python -m siloquent`` is the command line."""

from siloquent.cli.app import main

main()
