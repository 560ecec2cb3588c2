"""This process and its machine: signals, other processes, memory, progress, compiled programs."""
