"""Recording a call and running its graph on a backend, with NumPy to settle what goes wrong."""
