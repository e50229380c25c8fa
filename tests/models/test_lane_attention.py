"""Attention in lanes against torch's own, values and gradients."""

import pytest
import torch
from torch.nn import functional

from models import lane_attention


def reference(qkv, heads, slopes):
    sequences, length, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    q, k, v = qkv.view(sequences, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    distance = torch.arange(length)[:, None] - torch.arange(length)
    bias = torch.zeros(heads, length, length, dtype=qkv.dtype)
    if slopes is not None:
        bias = -slopes[:, None, None] * distance
    bias = bias.masked_fill(distance < 0, float("-inf"))
    mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(sequences, -1, -1, -1))
    return mixed.transpose(1, 2).reshape(sequences, length, width)


@pytest.mark.parametrize("alibi", [False, True])
@pytest.mark.parametrize(
    ("sequences", "length", "heads", "size"), [(1, 1, 1, 1), (5, 3, 4, 4), (3000, 6, 3, 2), (2, 17, 2, 8)]
)
def test_values_and_gradients_are_torchs(sequences, length, heads, size, alibi):
    generator = torch.Generator().manual_seed(0)
    qkv = 2 * torch.randn(sequences, length, 3 * heads * size, dtype=torch.float64, generator=generator)
    slopes = torch.rand(heads, dtype=torch.float64, generator=generator) if alibi else None
    g = torch.randn(sequences, length, heads * size, dtype=torch.float64, generator=generator)
    ours, theirs = qkv.clone().requires_grad_(), qkv.clone().requires_grad_()
    mixed, expected = lane_attention.attend(ours, heads, slopes), reference(theirs, heads, slopes)
    torch.testing.assert_close(mixed, expected)
    mixed.backward(g)
    expected.backward(g)
    torch.testing.assert_close(ours.grad, theirs.grad)
    assert torch.equal(ours, qkv)


def test_a_lane_does_not_depend_on_its_neighbours():
    qkv = torch.randn(3000, 5, 12, generator=torch.Generator().manual_seed(1))
    whole = lane_attention.attend(qkv, 2, None)
    spoilt = qkv.clone()
    spoilt[7] = float("nan")
    kept = lane_attention.attend(spoilt, 2, None)
    assert torch.equal(whole[:7], kept[:7])
    assert torch.equal(whole[8:], kept[8:])
    torch.testing.assert_close(whole[2990:], lane_attention.attend(qkv[2990:].clone(), 2, None))


@pytest.mark.parametrize(("lanes", "size", "device"), [(1023, 4, "cpu"), (9999, 9, "cpu"), (9999, 4, "meta")])
def test_where_it_is_not_used(lanes, size, device):
    assert not lane_attention.worthwhile(lanes, size, torch.device(device))
    assert lane_attention.worthwhile(1024, 8, torch.device("cpu"))
