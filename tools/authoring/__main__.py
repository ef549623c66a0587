"""``python -m tools.authoring`` is ``python -m tools``."""

import sys

from tools.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
