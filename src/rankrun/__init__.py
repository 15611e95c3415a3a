"""rankrun: launch, prove, measure and diagnose multi-node PyTorch runs.

Layers, each importing only from those before it: cluster, jobs, collectives, scripts.
The folders of the same names at the top of the repository hold the code; the links
beside this file are for type checkers and for running without an installation.
"""

__version__ = "0.1.0"
