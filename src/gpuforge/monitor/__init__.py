"""Monitoring this machine and this user's gpuforge processes: samples, averages and history."""
