"""The way of a call: sign, admit, decide, execute, settle, learn."""
