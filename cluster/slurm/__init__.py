"""What Slurm says of jobs: states, reasons, refusals. Asked by its own programs, never as JSON.

The programs' JSON changes between releases; `-o` formats do not.
"""
