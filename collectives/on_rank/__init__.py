"""The program that runs on every rank of the suite: `python -m rankrun.collectives.on_rank`.

Only its modules import torch.
"""
