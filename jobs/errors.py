"""The base error of this folder."""

from __future__ import annotations


class JobError(Exception):
    """Something about a run, its files or its training is wrong; the message says what, where and what to do."""
