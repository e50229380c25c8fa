"""The one error this folder raises on purpose."""


class AnalysisError(Exception):
    """Results that cannot be analysed as asked: where, the offending value, and what to do about it.

    The message is written for the person at the terminal; the command prints it and exits with 2.
    """
