"""Reduce the cost of a program's start, or defer it."""
