"""Running many tasks: queues, batches, worker processes, clusters."""
