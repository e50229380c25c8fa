from typing import Any

import pytest
import torch

from jobs.data import UNSCORED, one_set
from jobs.evaluation import HeldOut, hits, member_losses
from jobs.tasks.base import score
from jobs.tasks.build import make_task
from jobs.tasks.config import AddConfig, CopyConfig, ManoConfig, TaskConfig
from models.build import Member, build_pack
from models.config import TransformerConfig

U = UNSCORED


def test_loss_is_the_mean_over_a_members_scored_predictions() -> None:
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3, 2, 5, generator=draw)
    targets = torch.tensor([[[1, 2], [0, U], [4, 4]], [[3, U], [2, U], [0, U]]])
    logp = logits.log_softmax(-1)
    first = [logp[0, 0, 0, 1], logp[0, 0, 1, 2], logp[0, 1, 0, 0], logp[0, 2, 0, 4], logp[0, 2, 1, 4]]
    second = [logp[1, 0, 0, 3], logp[1, 1, 0, 2], logp[1, 2, 0, 0]]
    expected = -torch.stack([torch.stack(first).mean(), torch.stack(second).mean()])
    torch.testing.assert_close(member_losses(logits, targets), expected)


def test_hits_count_predictions_or_whole_sequences() -> None:
    targets = torch.tensor([[[1, 2], [0, U], [4, 4], [1, U]]])
    predicted = torch.tensor([[[1, 0], [0, 3], [4, 4], [2, 2]]])
    logits = torch.nn.functional.one_hot(predicted, 5).float()
    right, counted = hits(logits, targets, by_sequence=False)
    assert (right.tolist(), counted.tolist()) == ([[1, 1, 2, 0]], [[2, 1, 2, 1]])
    right, counted = hits(logits, targets, by_sequence=True)
    assert (right.tolist(), counted.tolist()) == ([[0, 1, 1, 0]], [[1, 1, 1, 1]])


@pytest.mark.parametrize(
    "config",
    [
        CopyConfig(symbols=3, min_length=3, max_length=3, test_max_length=4, train=30, validation=8, test=8),
        ManoConfig(modulus=5, max_operations=2, train=100, validation=60, test=60),
        AddConfig(digits=2, train=100, validation=50, test=50),
    ],
)
def test_accuracy_is_what_the_task_itself_scores(config: TaskConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members of mixed data seeds, in chunks, against the tasks' own scoring of full-length logits."""
    task = make_task(config)
    model = build_pack(
        [
            Member(TransformerConfig(vocab=config.vocab, length=config.length - 1, width=8, heads=2, init_std=0.5), s)
            for s in range(3)
        ]
    )
    seeds = [1, 0, 1]
    monkeypatch.setattr("jobs.evaluation._ROWS", 100)
    scores = HeldOut(task, one_set(task, "test", seeds), [9, 1, 99]).scores(model)
    tables = [score.accuracy for score in scores]
    for member, seed in enumerate(seeds):
        examples = task.dataset("test", seed)
        tokens = torch.from_numpy(examples.tokens).long()[:, :-1].expand(3, -1, -1)
        with torch.no_grad():
            predicted = model(tokens)[member].argmax(-1).numpy()
        expected: dict[str, Any] = score(predicted == examples.targets, examples, config.metric, config.classes)
        ours = {"accuracy" if k is None else f"accuracy/{k}": v for k, v in tables[member].items()}
        assert ours == pytest.approx(expected)
        with torch.no_grad():
            logits, scored = model(tokens)[member], torch.from_numpy(examples.scored)
        targets = torch.from_numpy(examples.targets).long()
        loss = torch.nn.functional.cross_entropy(logits[scored].double(), targets[scored])
        assert scores[member].loss == pytest.approx(float(loss), rel=1e-5)
        early = scored & (torch.arange(scored.shape[1]) < [9, 1, 99][member])
        if 0 < early.sum() < scored.sum():
            loss = torch.nn.functional.cross_entropy(logits[early].double(), targets[early])
            assert scores[member].first_loss == pytest.approx(float(loss), rel=1e-5)
        else:
            assert scores[member].first_loss is None
