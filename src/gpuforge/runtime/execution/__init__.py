"""How a call is executed: sign, admit, decide, execute, settle, learn."""
