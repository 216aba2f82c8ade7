"""`python -m kraftcheck`."""

import sys

from kraftcheck.cli import main

if __name__ == "__main__":
    sys.exit(main())
