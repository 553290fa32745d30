"""The user's function: its name, options, code, and the signatures of its calls."""
