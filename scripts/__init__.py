"""The command line. No logic here: each command parses, plans, and calls a lower layer."""
