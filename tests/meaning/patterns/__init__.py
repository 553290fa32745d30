"""Patterns by class, one file each."""
