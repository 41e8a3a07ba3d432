"""A live fleet made from a simulation: its folders, the state it starts with, and its processes on one machine."""
