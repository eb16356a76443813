"""Schedules and conditions of a captured step."""

import pytest
import torch

from outland.methods import Progress
from outland.training.capture import CapturedProgress

CPU = torch.device("cpu")


class TestCapturedProgress:
    def test_scalars_follow_their_schedule_in_place(self):
        progress = CapturedProgress(Progress(epoch=1, epochs=10), CPU)
        first = progress.scalar(lambda now: 2.0 * now.epoch)
        second = progress.scalar(lambda now: now.step)
        assert (first.item(), second.item()) == (2, 0)
        progress.rewind()
        assert progress.scalar(lambda now: 99.0) is first  # the same tensor, whatever function object asks
        progress.update(Progress(epoch=3, epochs=10, step=7))
        assert (first.item(), second.item()) == (6, 7)

    def test_branches_decide_whether_a_capture_is_valid(self):
        progress = CapturedProgress(Progress(epoch=1, epochs=10), CPU)
        assert progress.branch(lambda now: now.epoch < 5)
        assert not progress.branch(lambda now: now.epoch % 4 == 0)
        assert progress.is_valid(Progress(epoch=3))
        assert not progress.is_valid(Progress(epoch=4))
        assert not progress.is_valid(Progress(epoch=5))

    def test_a_loss_cannot_look_at_the_epoch_while_it_is_captured(self):
        with pytest.raises(AttributeError):
            _ = CapturedProgress(Progress(epoch=1), CPU).epoch
