"""S7: time of a feed-forward block with a frozen spline over the same block with GeLU, forward and backward, on a CPU.

GeLU is the tanh approximation that the baseline uses. Compiled is the comparison that counts at scale; the eager one is
what the small stacked runs use. Rounds are interleaved and the fastest counts.
"""

import time
from collections.abc import Callable

import torch

from models.activations import FrozenActivation
from models.config import ActivationConfig, FixedActivation, LearnedActivation, TransformerConfig
from models.curves import member_shapes, start_values
from models.feed_forward import FeedForward
from models.init import draw

WIDTH, TOKENS, ROUNDS = 128, 4096, 12


def _block(activation: ActivationConfig, *, compiled: bool) -> Callable[[], None]:
    config = TransformerConfig(vocab=2, length=1, width=WIDTH, heads=4, activation=activation)
    block = FeedForward(config, ())
    for name, weight in block.named_parameters():
        weight.data.copy_(
            10 * draw(name, weight.shape, config, 0)
        )  # inputs of the function then spread over several bins
    curves = {"mlp": start_values(activation.grid, "gelu")} if isinstance(activation, LearnedActivation) else {}
    function = FrozenActivation([activation], [member_shapes(config, curves, searching=False)["mlp"]])
    x = torch.randn(TOKENS, WIDTH, generator=torch.Generator().manual_seed(0), requires_grad=True)

    def forward(x: torch.Tensor) -> torch.Tensor:
        return block(x, lambda hidden: function(hidden.unsqueeze(0), 0).squeeze(0))

    run = torch.compile(forward, fullgraph=True, dynamic=False) if compiled else forward

    def step() -> None:
        block.zero_grad(set_to_none=True)
        x.grad = None
        run(x).sum().backward()

    return step


def measure(*, compiled: bool) -> dict[str, object]:
    """One row: spline / GeLU."""
    spline = _block(LearnedActivation(), compiled=compiled)
    gelu = _block(FixedActivation(kind="gelu"), compiled=compiled)
    fastest = {spline: float("inf"), gelu: float("inf")}
    for _ in range(ROUNDS + 1):  # the first round compiles and warms up; it can never be the fastest
        for run in fastest:
            start = time.perf_counter()
            run()
            fastest[run] = min(fastest[run], time.perf_counter() - start)
    return {
        "id": "S7" if compiled else "S7-eager",
        "what": f"spline / GeLU, {'compiled' if compiled else 'eager'} MLP block {WIDTH}-{4 * WIDTH}, {TOKENS} tokens",
        "ratio": fastest[spline] / fastest[gelu],
        "target": "<= 1.10",
        "seconds": fastest[spline],
    }


def main() -> list[dict[str, object]]:
    """Measure and print; the compiled block first."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = [measure(compiled=True), measure(compiled=False)]
    finally:
        torch.set_num_threads(threads)
    for row in rows:
        print(f"{row['id']} {row['what']}: {row['ratio']:.2f} (target {row['target']}; {row['seconds']:.2e} s a step)")
    return rows


if __name__ == "__main__":
    main()
