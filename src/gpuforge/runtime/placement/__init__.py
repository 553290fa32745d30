"""Which backend finishes a call first: evidence, estimates, what trying may cost."""
