"""K7: what stacking buys on one CPU thread, per model-step, against the same models trained one after the other.

Both sides run eagerly with the fused AdamW, on the same tokens; a solo model is :func:`models.build.build_solo`, with
torch's own LayerNorm and attention. Rounds are interleaved and the fastest counts, so that a busy neighbour on the
machine does not decide.
"""

import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from models.build import Member, build_pack, build_solo
from models.config import TransformerConfig
from models.transformer import Transformer

MEMBERS, BATCH, ROUNDS = 16, 16, 9


def _step(model: Transformer, tokens: Tensor) -> Callable[[], None]:
    weights = list(model.weights().values())
    optimizer = torch.optim.AdamW(weights, lr=1e-3, fused=True)
    targets = tokens[..., 1:].reshape(-1)
    sequences = tokens[..., :-1].contiguous()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        logits = model(sequences).flatten(0, -2)
        functional.cross_entropy(logits, targets, reduction="sum").backward()
        optimizer.step()

    return step


def _seconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(width: int, length: int) -> dict[str, object]:
    """One row: stacked against sequential at this width and sequence length."""
    config = TransformerConfig(vocab=64, length=length, width=width, heads=4)
    tokens = torch.randint(0, 64, (MEMBERS, BATCH, length + 1), generator=torch.Generator().manual_seed(0))
    packed = _step(build_pack([Member(config, seed) for seed in range(MEMBERS)]), tokens)
    solos = [_step(build_solo(config, seed), tokens[seed]) for seed in range(MEMBERS)]

    def sequential() -> None:
        for step in solos:
            step()

    fastest = {packed: float("inf"), sequential: float("inf")}
    for _ in range(ROUNDS + 1):  # the first round only warms up; it can never be the fastest
        for run in fastest:
            fastest[run] = min(fastest[run], _seconds(run))
    return {
        "id": "K7",
        "what": f"solo / packed time, P={MEMBERS}, width {width}, length {length}, batch {BATCH}, 1 thread",
        "ratio": fastest[sequential] / fastest[packed],
        "target": ">= 1.3",
        "seconds": fastest[packed] / MEMBERS,
    }


def main() -> list[dict[str, object]]:
    """Measure and print; one row for each width and length."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = [measure(width, length) for width in (32, 16) for length in (40, 12)]
    finally:
        torch.set_num_threads(threads)
    for row in rows:
        print(f"{row['id']} {row['what']}: {row['ratio']:.2f} (target {row['target']}; {row['seconds']:.2e} s a step)")
    return rows


if __name__ == "__main__":
    main()
