"""The way of a call: signature, placement, transfer, run, restored result."""
