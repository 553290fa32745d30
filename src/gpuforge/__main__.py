"""The command ``gpuforge``, which is ``python -m gpuforge`` as well.

A user's file with the name of a standard module, in the current folder or on PYTHONPATH, must not
break the command that is meant to find it: so installed modules come first here. A program that
gpuforge runs gets its own interpreter and search path.
"""

import os
import site
import sys

_STANDARD = os.path.dirname(os.__file__)
_FIRST = [_STANDARD, os.path.join(_STANDARD, "lib-dynload"), *site.getsitepackages()]
sys.path.sort(key=lambda entry: _FIRST.index(entry) if entry in _FIRST else len(_FIRST))

from gpuforge.cli.main import main  # noqa: E402 - with the order above

if __name__ == "__main__":
    sys.exit(main())
