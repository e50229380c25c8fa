"""What a model costs, by formula: parameters and floating point operations. No torch; the formulas are tested on one.

A multiplication and an addition count as two operations. Matrix products only: norms, softmax and elementwise
functions are left out, as is usual. Attention is counted in full, without the factor two that causality could save.
"""

from models.config import TransformerConfig


def count_parameters(config: TransformerConfig) -> int:
    """Weights of one model; the numbers of a searched function are not among them (they are frozen when it trains)."""
    width, hidden = config.width, config.hidden
    attention = 2 * width + (3 * width * width + 3 * width) + (width * width + width)
    feed_forward = 2 * width + (width * hidden + hidden) + (hidden * width + width)
    embeddings = config.vocab * width + (config.length * width if config.positions == "learned" else 0)
    head = 2 * width + width * config.vocab
    return embeddings + config.layers * (attention + feed_forward) + head


def flops_per_token(config: TransformerConfig, length: int) -> int:
    """Forward operations of one token in a sequence of ``length`` tokens."""
    width = config.width
    projections = 4 * width * width + 2 * width * config.hidden
    attention = 2 * length * width  # scores and weighted sum, over all heads
    return 2 * (config.layers * (projections + attention) + width * config.vocab)


def flops_per_step(config: TransformerConfig, batch: int, length: int) -> int:
    """Operations of one training step of one model: forward, and twice as much backward."""
    return 3 * batch * length * flops_per_token(config, length)
