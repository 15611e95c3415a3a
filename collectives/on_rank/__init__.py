"""The program that runs on every rank of the suite: `python -m rankrun.collectives.on_rank`.

torch is imported by its modules, `faults` excepted, which the command line reads.
"""
