"""Compatibility of framework builds with drivers, compute capabilities, Pythons and platforms.

Pure functions over TOML tables; nothing here reads the machine. Each entry names its ``source`` and
the day it was ``checked``. What the tables do not say is None, never a guess.
"""
