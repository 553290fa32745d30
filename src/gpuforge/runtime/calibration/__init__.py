"""How the backends of a machine compare with NumPy, measured once and carried to others."""
