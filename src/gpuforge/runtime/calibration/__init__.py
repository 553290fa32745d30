"""How a machine's backends compare with NumPy: measured once, and transferable to others."""
