"""Runs calls of user functions: signature, placement, transfer, execution, result."""
