"""What a machine and this user's gpuforge processes do now: samples, their averages and history."""
