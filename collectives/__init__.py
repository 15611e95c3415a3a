"""The collective suite: operations, exact verification, measurement, tables.

torch is imported only below `on_rank`, which runs where the ranks run.
"""
