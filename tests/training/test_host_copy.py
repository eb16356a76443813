import torch

from outland.training.host_copy import HostCopy


def test_on_a_cpu_copies_are_there_at_once_and_do_not_change_with_the_originals():
    numbers, empty, marks = torch.arange(3.0, requires_grad=True), torch.zeros(0), torch.tensor([True, False])
    copy = HostCopy(numbers, empty, marks)
    assert copy.event is None
    assert copy.has_arrived
    with torch.no_grad():
        numbers.fill_(7)
        marks.logical_not_()
    found = copy.tensors()
    assert [tensor.tolist() for tensor in found] == [[0, 1, 2], [], [True, False]]
    assert not found[0].requires_grad
    assert [tensor.dtype for tensor in found] == [torch.float32, torch.float32, torch.bool]
