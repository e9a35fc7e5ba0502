"""`python -m asyncpool` is the command `asyncpool`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
