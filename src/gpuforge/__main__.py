"""``python -m gpuforge`` is the command ``gpuforge``."""

import sys

from gpuforge.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
