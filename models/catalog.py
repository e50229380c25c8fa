"""Names of what can be built, for listings and for messages that name the valid choices; torch is never imported."""

from types import MappingProxyType

ACTIVATIONS = MappingProxyType(
    {
        "gelu": "GeLU, tanh approximation as in GPT-2",
        "relu": "max(x, 0)",
        "relu2": "max(x, 0)^2",
        "silu": "x * sigmoid(x)",
        "tanh": "tanh(x)",
        "identity": "x: a linear feed-forward block",
        "learned": "piecewise linear spline, values from a search",
        "scaled_gelu": "a * GeLU(b * x), a and b from a search",
        "spline_file": "piecewise linear spline, values written out in the config",
        "random_spline": "smooth random spline of a given second moment",
    }
)
ATTENTION_KERNELS = MappingProxyType(
    {
        "softmax": "softmax(QK^T / sqrt(d_head))",
        "spline": "phi(Q) phi(K)^T with an elementwise phi, no exponential",
    }
)
ATTENTION_NORMS = MappingProxyType(
    {
        "none": "kernel / (sqrt(d_head) * sqrt(i + 1)) at position i",
        "sum_abs": "kernel / sum of its absolute values over the row",
        "softmax": "softmax(kernel / sqrt(d_head))",
    }
)
POSITIONS = MappingProxyType(
    {
        "learned": "a learned vector for each absolute position",
        "alibi": "no position vectors; a linear penalty on distance, per head",
    }
)
