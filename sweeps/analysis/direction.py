"""Which way a metric is better, as far as its name says."""

import re

_LOSSES = {"loss", "losses", "perplexity", "ppl", "nll", "bits", "bpb", "bpc", "entropy"}
_ERRORS = {"error", "err", "wer", "cer", "mse", "rmse", "mae", "regret"}


def reads_as_loss(metric: str) -> bool:
    """Whether a name says loss, perplexity or bits: what a model is trained on, no downstream metric."""
    return not _LOSSES.isdisjoint(_words(metric))


def reads_as_lower(metric: str) -> bool:
    """Whether less of the metric is better by its name: a loss, or an error."""
    return not (_LOSSES | _ERRORS).isdisjoint(_words(metric))


def _words(metric: str) -> list[str]:
    return re.findall(r"[a-z]+", metric.lower())
