"""Many tasks: a queue with priorities, lanes of devices, batches of calls that wait together."""
