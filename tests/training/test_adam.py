import pytest
import torch
from torch import nn

from outland.training.adam import Adam


def parameters() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((3, 5), (7,), ())]


def set_gradients(weights: list[nn.Parameter], step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for weight in weights:
        weight.grad = torch.randn(weight.shape, generator=generator)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_steps_are_those_of_pytorchs_fused_adam(decay):
    ours, theirs = parameters(), parameters()
    adam, torch_adam = Adam(ours, 0.01, decay), torch.optim.Adam(theirs, 0.01, weight_decay=decay, fused=True)
    for step in range(5):
        if step == 3:
            adam.set_lr(0.1)
            torch_adam.param_groups[0]["lr"] = 0.1
        set_gradients(ours, step)
        set_gradients(theirs, step)
        adam.step()
        torch_adam.step()
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    state = torch_adam.state_dict()["state"]
    expected = {f"{index}.{name}": value for index, values in state.items() for name, value in values.items()}
    assert adam.state_dict().keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in adam.state_dict().items())


def test_a_loaded_state_goes_on_as_the_saved_one():
    weights, again = parameters(), parameters()
    adam = Adam(weights, 0.01, 0.0)
    set_gradients(weights, 0)
    adam.step()
    saved = {name: value.clone() for name, value in adam.state_dict().items()}
    other = Adam(again, 0.01, 0.0)
    with torch.no_grad():
        for to, weight in zip(again, weights, strict=True):
            to.copy_(weight)
    moment = other.state_dict()["0.exp_avg"]
    other.load_state_dict(saved)
    assert other.state_dict()["0.exp_avg"] is moment  # in place: a captured step reads it
    for each, optimizer in ((weights, adam), (again, other)):
        set_gradients(each, 1)
        optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(weights, again, strict=True))
    assert float(other.state_dict()["1.step"]) == 2
    other.load_state_dict({})
    assert all(not value.any() for value in other.state_dict().values())
