"""Adam without `torch.optim.Adam`, whose first step imports PyTorch's compiler: seconds before training begins."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

_BETAS, _EPSILON = (0.9, 0.999), 1e-8


class Adam:
    """PyTorch's fused Adam (Kingma and Ba, ICLR 2015), bit for bit, over parameters that all have gradients.

    Args:
        parameters: what `step` changes.
        lr: learning rate; a tensor on a GPU, where a step may be captured, so that it can change.
        weight_decay: weight of the squared norm.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], lr: float | Tensor, weight_decay: float) -> None:
        self.parameters, self.lr, self.weight_decay = list(parameters), lr, weight_decay
        self._steps = [torch.zeros((), device=parameter.device) for parameter in parameters]
        self._means = [torch.zeros_like(parameter, requires_grad=False) for parameter in parameters]
        self._squares = [torch.zeros_like(parameter, requires_grad=False) for parameter in parameters]

    @torch.no_grad()
    def step(self) -> None:
        """Change the parameters by their gradients."""
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        adam(
            list[Tensor](self.parameters),
            gradients,
            self._means,
            self._squares,
            [],
            self._steps,
            fused=True,
            capturable=isinstance(self.lr, Tensor),
            amsgrad=False,
            beta1=_BETAS[0],
            beta2=_BETAS[1],
            lr=self.lr,
            weight_decay=self.weight_decay,
            eps=_EPSILON,
            maximize=False,
        )

    def set_lr(self, rate: float) -> None:
        """Change the learning rate, in place where it is a tensor."""
        if isinstance(self.lr, Tensor):
            self.lr.fill_(rate)
        else:
            self.lr = rate

    def state_dict(self) -> dict[str, Tensor]:
        """Steps and moments, as `index.name` with the names of `torch.optim.Adam`."""
        state = {"step": self._steps, "exp_avg": self._means, "exp_avg_sq": self._squares}
        return {
            f"{index}.{name}": tensors[index]
            for index in range(len(self.parameters))
            for name, tensors in state.items()
        }

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Set steps and moments, in place, to those of `state`; what it does not name becomes zero."""
        for name, tensor in self.state_dict().items():
            tensor.copy_(state[name]) if name in state else tensor.zero_()
