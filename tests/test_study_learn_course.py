"""Early stopping, losses by hand, checkpoints, and going on after an interruption."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagehand.errors import InputError
from sagehand.study.learn.course import Epoch, Fit, best_epoch, early_stop, fit, read_course, score

HOW = Fit(epochs=8, patience=2, rate=0.05, decay=0.0, batch=4, seed=3, device="cpu")


class Table:
    """Examples from arrays."""

    def __init__(self, inputs: Any, classes: Any) -> None:
        self.inputs, self.classes = np.asarray(inputs, np.float32), np.asarray(classes, np.int64)

    def __len__(self) -> int:
        return len(self.classes)

    def batch(self, rows: Sequence[int]) -> Any:
        return self.inputs[list(rows)], self.classes[list(rows)]


def clouds(seed: int, count: int, spread: float = 1.0) -> Table:
    """Two clouds of points about (2, 0, …) and (−2, 0, …)."""
    rng = np.random.default_rng(seed)
    classes = np.arange(count) % 2
    inputs = rng.normal(0, spread, (count, 5))
    inputs[:, 0] += np.where(classes == 0, 2, -2)
    return Table(inputs, classes)


def linear(seed: int = 0) -> Any:
    import torch

    torch.manual_seed(seed)
    return torch.nn.Linear(5, 2)


def apply(network: Any, inputs: Any) -> Any:
    return network(inputs)


@pytest.mark.parametrize(
    ("losses", "best", "stop"),
    [
        ([], None, False),
        ([1.0], 1, False),
        ([1.0, 1.1], 1, False),
        ([1.0, 1.1, 1.0], 1, True),  # the same loss is no better one
        ([1.0, 1.1, 0.9], 3, False),
        ([3.0, 2.0, 2.5, 2.4], 2, True),
        ([math.nan, 1.0], 2, False),
        ([math.nan, math.nan], None, True),
        ([1.0, math.inf, math.nan], 1, True),
    ],
)
def test_training_ends_two_epochs_after_the_lowest_loss(losses: list[float], best: int | None, stop: bool) -> None:
    assert best_epoch(losses) == best
    assert early_stop(losses, 2) is stop


@given(st.lists(st.floats(0, 10), min_size=1, max_size=20), st.integers(1, 5))
def test_where_training_ends_no_later_epoch_of_the_last_few_was_better(losses: list[float], patience: int) -> None:
    stops = [n for n in range(1, len(losses) + 1) if early_stop(losses[:n], patience)]
    if stops:
        first = stops[0]
        assert min(losses[: first - patience]) <= min(losses[first - patience : first])
        assert losses[best_epoch(losses[:first]) - 1] == min(losses[:first])  # type: ignore[operator]


@pytest.mark.torch
def test_loss_and_accuracy_by_hand() -> None:
    pytest.importorskip("torch")
    import torch

    network = torch.nn.Linear(2, 2)
    with torch.no_grad():
        network.weight.copy_(torch.eye(2))
        network.bias.zero_()
    # softmax of (ln 3, 0) is (3/4, 1/4); of (0, ln 4) it is (1/5, 4/5); the third class was not learnt
    examples = Table([[math.log(3), 0], [0, math.log(4)], [0, math.log(4)], [5, 0]], [0, 1, 0, -1])
    loss, accuracy = score(network, apply, examples, HOW)
    assert loss == pytest.approx((math.log(4 / 3) + math.log(5 / 4) + math.log(5)) / 3, rel=1e-6)
    assert accuracy == 2 / 4
    assert score(network, apply, Table(np.zeros((0, 2)), []), HOW) == (None, None)


@pytest.mark.torch
def test_the_weights_of_the_lowest_validation_loss_are_kept(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    how = Fit(epochs=30, patience=2, rate=0.5, decay=0.0, batch=4, seed=1, device="cpu")
    train, validation = clouds(1, 12, 3.0), clouds(2, 40, 3.0)
    network = linear()
    course = fit(network, apply, train, validation, how, tmp_path)
    losses = [epoch.validation_loss for epoch in course.epochs]
    assert course.ended == "patience"
    assert course.by == "validation"
    assert course.best == len(losses) - 2
    assert losses[course.best - 1] == min(losses)  # type: ignore[type-var]
    assert score(network, apply, validation, how)[0] == pytest.approx(losses[course.best - 1], rel=1e-6)
    assert read_course(tmp_path) == course
    assert not (tmp_path / "state.pt").exists()


@pytest.mark.torch
def test_without_validation_every_epoch_is_run(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    course = fit(linear(), apply, clouds(1, 12), None, HOW, tmp_path)
    assert (len(course.epochs), course.by, course.ended) == (8, "training", "epochs")
    losses = [epoch.train_loss for epoch in course.epochs]
    assert losses[course.best - 1] == min(losses)
    assert losses[-1] < losses[0]


@pytest.mark.torch
@pytest.mark.parametrize("after", [1, 3])
def test_a_training_that_was_broken_off_goes_on_to_the_same_weights(tmp_path: Path, after: int) -> None:
    torch = pytest.importorskip("torch")

    def net() -> Any:  # with dropout: what is drawn must be drawn again alike
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.Dropout(0.3), torch.nn.Linear(6, 2))

    class CtrlC(Exception):
        pass

    def break_off(epoch: Epoch) -> None:
        if epoch.number == after:
            raise CtrlC

    train, validation = clouds(1, 13), clouds(2, 20)
    whole, broken = net(), net()
    course = fit(whole, apply, train, validation, HOW, tmp_path / "whole")
    with pytest.raises(CtrlC):
        fit(broken, apply, train, validation, HOW, tmp_path / "broken", on_epoch=break_off)
    assert read_course(tmp_path / "broken") is None
    again = net()
    seen: list[int] = []
    resumed = fit(again, apply, train, validation, HOW, tmp_path / "broken", on_epoch=lambda e: seen.append(e.number))
    assert seen == list(range(after + 1, len(course.epochs) + 1))
    told = [(e.number, e.train_loss, e.validation_loss) for e in course.epochs]
    assert [(e.number, e.train_loss, e.validation_loss) for e in resumed.epochs] == told
    for one, two in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, two)


@pytest.mark.torch
def test_a_finished_training_is_taken_as_it_is(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    first, second = linear(), linear(7)
    course = fit(first, apply, clouds(1, 12), clouds(2, 12), HOW, tmp_path)
    called: list[Epoch] = []
    assert fit(second, apply, clouds(1, 12), clouds(2, 12), HOW, tmp_path, on_epoch=called.append) == course
    assert called == []
    assert torch.equal(first.weight, second.weight)


@pytest.mark.torch
def test_the_process_keeps_its_own_chance(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    network = linear()
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    fit(network, apply, clouds(1, 12), clouds(2, 12), HOW, tmp_path)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.torch
def test_a_single_sample_left_over_is_no_batch_of_its_own(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    sizes: list[int] = []

    def told(network: Any, inputs: Any) -> Any:
        sizes.append(len(inputs))
        return network(inputs)

    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 2))  # refuses to train on one row
    fit(network, told, clouds(1, 9), None, Fit(1, 2, 0.01, 0.0, 4, 0, "cpu"), tmp_path)
    assert sizes == [4, 5]


@pytest.mark.torch
def test_a_loss_that_is_no_number_is_told(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    table = clouds(1, 12)
    table.inputs[:] = np.nan
    with pytest.raises(InputError, match="training diverged: no validation loss is a number"):
        fit(linear(), apply, table, clouds(2, 12), HOW, tmp_path)
    assert not (tmp_path / "course.json").exists()


@pytest.mark.torch
def test_a_damaged_checkpoint_is_told(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    fit(linear(), apply, clouds(1, 12), clouds(2, 12), HOW, tmp_path)
    (tmp_path / "best.pt").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(InputError, match=r"best\.pt: the checkpoint cannot be read") as caught:
        fit(linear(), apply, clouds(1, 12), clouds(2, 12), HOW, tmp_path)
    assert "delete" in caught.value.hint
    assert json.loads((tmp_path / "course.json").read_text())["best"] >= 1
