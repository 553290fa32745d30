"""Which build runs on which driver, capability, Python and platform: sourced TOML, pure functions.

Each entry of a table names its ``source`` and the day it was ``checked``. Nothing here reads the
machine, and what the tables do not say is None, never a guess.
"""
