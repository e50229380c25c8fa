"""Get a command onto machines: start an argv, say what became of it, stop it.

May import: nothing of ours. A stranger to jobs and models.
"""
