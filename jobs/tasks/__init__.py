"""The tasks a model can be trained on: deterministic generators from (data seed, index)."""
