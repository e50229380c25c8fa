"""Build a network from a typed description: architectures and their modifications.

May import: nothing of ours.
"""
