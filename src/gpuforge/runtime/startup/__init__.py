"""What a program's start costs, and what is done to pay less of it, or later."""
