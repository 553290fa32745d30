"""Pages are looked at in a browser."""

from tests.chromium import axe, chromium

__all__ = ["axe", "chromium"]
