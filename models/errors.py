"""The one base error of this folder."""


class ModelError(ValueError):
    """A description that cannot be built; the message says what is wrong and what the valid choices are."""
