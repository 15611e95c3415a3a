"""The node agent: starts a host's ranks, relays what they say, and ends every one of them.

Standard library only, Python 3.9 and newer: it is shipped to hosts as it stands.
"""
