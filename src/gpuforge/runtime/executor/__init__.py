"""Calls that do not run where they are made: later, together, elsewhere."""
