"""Which backend finishes a call first: evidence, estimates, and the budget for exploration."""
