"""Schedules and conditions of a captured step; streams and memory that runs take over from one another."""

import gc
from weakref import WeakSet

import pytest
import torch

from outland.methods import Progress
from outland.training.capture import CapturedProgress, CaptureSlot, GraphCapture

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


class FakeGPU:
    """What happened on a device that is not here: streams made, graphs begun and ended, cuBLAS's memory given up.

    `calls` has the order of those that must not change places.
    """

    def __init__(self):
        self.streams, self.begun, self.ended, self.cleared = 0, 0, 0, 0
        self.calls: list[str] = []

    def stream(self, device):
        self.streams += 1
        return self

    def synchronize(self):
        self.calls.append("synchronize")

    def clear(self):
        self.cleared += 1

    def graph(self):
        gpu = self

        class Graph:
            def __init__(self):
                gpu.begun += 1

            def reset(self):
                gpu.ended += 1
                gpu.calls.append("reset")

            def replay(self):
                pass

        return Graph()


@pytest.fixture
def gpu(monkeypatch):
    fake, zeros = FakeGPU(), torch.zeros(())
    monkeypatch.setattr(torch.cuda, "Stream", fake.stream)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", fake.graph)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", object)
    monkeypatch.setattr(torch, "zeros", lambda size, device: zeros)
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", fake.clear, raising=False)
    monkeypatch.setattr("outland.training.capture._capturing", lambda graph, slot: torch.no_grad())
    monkeypatch.setattr(CaptureSlot, "_free", [])
    monkeypatch.setattr(CaptureSlot, "_all", WeakSet())
    return fake


CUDA = torch.device("cuda")


class TestCaptureSlot:
    def test_the_next_run_takes_over_stream_and_pool(self, gpu):
        for _ in range(3):
            capture = GraphCapture(CUDA)
            pool = capture._slot.pool
            capture.close()
        assert (gpu.streams, gpu.begun) == (1, 1)
        assert GraphCapture(CUDA)._slot.pool is pool

    def test_the_graphs_of_a_run_end_with_it_and_not_with_the_garbage(self, gpu):
        """A graph that ends later would take what cuBLAS works in from the run that has its stream by then."""
        capture = GraphCapture(CUDA)
        replays = [capture.capture(lambda: None) for _ in range(3)]
        assert gpu.ended == 0
        capture.close()
        assert (gpu.begun, gpu.ended, len(replays)) == (4, 3, 3)  # one more keeps the pool

    def test_graphs_end_after_their_replays_and_before_another_run_has_the_stream(self, gpu, monkeypatch):
        monkeypatch.setattr(CaptureSlot, "give_back", lambda slot: gpu.calls.append("give back"))
        capture = GraphCapture(CUDA)
        for _ in range(2):
            capture.capture(lambda: None)
        assert gpu.calls == []
        capture.close()
        assert gpu.calls == ["synchronize", "reset", "reset", "give back"]
        capture.close()
        assert len(gpu.calls) == 4  # a second time there is nothing to close

    def test_pools_are_given_up_and_streams_are_not(self, gpu):
        captures = [GraphCapture(CUDA) for _ in range(4)]
        for capture in captures:
            capture.close()
        CaptureSlot.drop_unused()
        assert [slot.pool for slot in CaptureSlot._free] == [None] * 4
        captures = [GraphCapture(CUDA) for _ in range(4)]
        assert gpu.streams == 4
        assert len({id(capture._slot.pool) for capture in captures}) == 4

    def test_cublas_gives_its_memory_up_where_no_run_has_graphs(self, gpu):
        first, second = GraphCapture(CUDA), GraphCapture(CUDA)
        first.close()
        CaptureSlot.drop_unused()
        assert gpu.cleared == 0
        second.close()
        CaptureSlot.drop_unused()
        assert gpu.cleared == 1

    def test_a_pytorch_without_the_private_name_has_nothing_to_clear(self, gpu, monkeypatch):
        monkeypatch.delattr(torch._C, "_cuda_clearCublasWorkspaces")
        GraphCapture(CUDA).close()
        CaptureSlot.drop_unused()
        assert [slot.pool for slot in CaptureSlot._free] == [None]

    def test_a_run_that_never_gave_its_slot_back_is_forgotten_with_it(self, gpu):
        GraphCapture(CUDA)
        refused = GraphCapture(CUDA)
        refused.refusal = "operation not permitted"
        refused.close()
        gc.collect()
        CaptureSlot.drop_unused()
        assert (gpu.cleared, CaptureSlot._free) == (1, [])
