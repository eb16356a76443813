"""Training steps: forward, backward and optimizer step of each phase of a method."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from outland.distributed import all_reduce_mean, world_size
from outland.errors import OutlandError
from outland.graphs import GraphBatch
from outland.methods import Method, Phase, Progress, Terms
from outland.spec import TrainSettings
from outland.training.adam import Adam
from outland.training.average import WeightAverage
from outland.training.data_parallel import loss_weight
from outland.training.precision import autocast

DIAGNOSTICS = "diagnostics."  # prefix of a method's diagnostics among the loss terms


class PhaseOptimizer:
    """A phase with its parameters and Adam.

    On a GPU, where a step may be captured, the learning rate is a tensor: it can change.
    """

    def __init__(self, phase: Phase, settings: TrainSettings) -> None:
        self.phase, self.parameters = phase, phase.parameters()
        decay = settings.weight_decay if phase.weight_decay is None else phase.weight_decay
        on_gpu = self.parameters[0].is_cuda
        rate = torch.tensor(phase.lr, device=self.parameters[0].device) if on_gpu else phase.lr
        self.adam = Adam(self.parameters, rate, decay)


class Stepper:
    """Takes training steps of a method.

    In each phase only the phase's parameters require gradients, so that no backward pass is done for the rest, and
    only its modules are in training mode.
    """

    def __init__(self, method: Method, settings: TrainSettings) -> None:
        self.method, self.settings = method, settings
        self.optimizers = [PhaseOptimizer(phase, settings) for phase in method.phases()]
        self.parameters = list(method.parameters())
        self._modes: tuple[Phase, dict[nn.Module, bool]] | None = None  # whose they are, and what they became
        self._zeros: dict[nn.Parameter, Tensor] = {}
        self._ones: dict[tuple[torch.dtype, torch.Size], Tensor] = {}
        self.average = WeightAverage(method, settings.average) if settings.average else None

    def set_learning_rates(self, epoch: int) -> None:
        """Set the learning rates of an epoch, by the schedule of each phase."""
        for optimizer in self.optimizers:
            optimizer.adam.set_lr(optimizer.phase.lr * self.settings.lr_factor(epoch, optimizer.phase.schedule))

    def step(self, batch: GraphBatch, progress: Progress) -> dict[str, Tensor]:
        """Take a step; returns the loss terms, as `phase.term`, and the method's diagnostics, on the device."""
        log: dict[str, Tensor] = {}
        self.method.seeds.renew()
        active = [optimizer for optimizer in self.optimizers if progress.branch(optimizer.phase.when)]
        for optimizer in active:
            terms = self.backward(optimizer, batch, progress)
            log |= {f"{optimizer.phase.name}.{name}": term.detach() for name, term in terms.items()}
            if self.method.update == "sequential":
                optimizer.adam.step()
        if self.method.update == "simultaneous":
            for optimizer in active:
                optimizer.adam.step()
        if self.average is not None:
            self.average.update(progress)
        diagnostics = {f"{DIAGNOSTICS}{name}": value for name, value in self.method.diagnostics().items()}
        return log | {name: value.detach().clone() for name, value in diagnostics.items()}

    def backward(self, optimizer: PhaseOptimizer, batch: GraphBatch, progress: Progress) -> Terms:
        """Set `.grad` of a phase's parameters to the gradient of its loss; returns the loss terms."""
        self._set_modes(optimizer.phase)
        for parameter in self.parameters:
            parameter.requires_grad_(False)
        for parameter in optimizer.parameters:
            parameter.requires_grad_(True)
        with autocast(self.settings.precision, self.parameters[0].device):
            terms = optimizer.phase.loss(batch, progress)
            gradients = self._gradients(optimizer, terms, batch)
        for parameter, gradient in zip(optimizer.parameters, gradients, strict=True):
            parameter.grad = gradient
        return terms

    def _set_modes(self, phase: Phase) -> None:
        """Put the modules of a phase in training mode and all others in evaluation mode.

        `eval` and `train` are slow, and left out where the modes are still those that they gave to this phase. These
        may be others than were asked for: a module that stays frozen has a `train` of its own.
        """
        if self._modes == (phase, self._current_modes()):
            return
        self.method.eval()
        for module in phase.modules:
            module.train()
        self._modes = phase, self._current_modes()

    def _current_modes(self) -> dict[nn.Module, bool]:
        return {module: module.training for module in self.method.modules()}

    def _gradients(self, optimizer: PhaseOptimizer, terms: Terms, batch: GraphBatch) -> list[Tensor]:
        if not isinstance(terms, dict):
            raise OutlandError(
                f"a loss must give its terms by name, as in {{'risk': ...}}, not a {type(terms).__name__}"
            )
        outputs = [term for term in terms.values() if term.requires_grad]
        if not outputs:
            raise OutlandError(f"no loss term of the phase '{optimizer.phase.name}' depends on what moves in it")
        grad_outputs = [self._ones_like(term) for term in outputs]
        if world_size() > 1:
            weight = loss_weight(batch, outputs[0].to(torch.promote_types(outputs[0].dtype, torch.float32)))
            grad_outputs = [ones * weight.to(ones.dtype) for ones in grad_outputs]
        grads = torch.autograd.grad(outputs, optimizer.parameters, grad_outputs, allow_unused=True)
        pairs = zip(optimizer.parameters, grads, strict=True)
        gradients = [self._zeros_like(parameter) if grad is None else grad for parameter, grad in pairs]
        return all_reduce_mean(gradients) if world_size() > 1 else gradients

    def _ones_like(self, term: Tensor) -> Tensor:
        """Cached `ones_like(term)`: the grad_output of a loss term."""
        key = (term.dtype, term.shape)
        if key not in self._ones:
            self._ones[key] = torch.ones_like(term)
        return self._ones[key]

    def _zeros_like(self, parameter: nn.Parameter) -> Tensor:
        """Cached `zeros_like(parameter)`, which the optimizer only reads."""
        if parameter not in self._zeros:
            self._zeros[parameter] = torch.zeros_like(parameter)
        return self._zeros[parameter]

    @contextmanager
    def rollback(self, *more: Tensor) -> Iterator[list[torch.Generator]]:
        """Context whose steps are undone in place: weights, statistics, optimizers, generators, and `more` tensors.

        It gives a list that holds, once it is over, the generators that were drawn from.
        """
        averages = [] if self.average is None else list(self.average.state_dict().values())
        tensors = [*self.method.parameters(), *self.method.buffers(), *averages, *more]
        before = [tensor.detach().clone() for tensor in tensors]
        moments = {name: tensor.clone() for name, tensor in self.state_dict().items()}
        generators = (self.method.random, self.method.dropout_random)
        states = [generator.get_state() for generator in generators]
        drawn: list[torch.Generator] = []
        yield drawn
        with torch.no_grad():
            for tensor, value in zip(tensors, before, strict=True):
                tensor.copy_(value)
            for name, tensor in self.state_dict().items():
                tensor.copy_(moments[name])
        for generator, state in zip(generators, states, strict=True):
            if not torch.equal(generator.get_state(), state):
                drawn.append(generator)
                generator.set_state(state)

    def state_dict(self) -> dict[str, Tensor]:
        """The optimizers' tensors, as `phase.index.name`."""
        return {
            f"{optimizer.phase.name}.{name}": tensor
            for optimizer in self.optimizers
            for name, tensor in optimizer.adam.state_dict().items()
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Set the optimizers' tensors to those of `state_dict`."""
        for optimizer in self.optimizers:
            prefix = f"{optimizer.phase.name}."
            named = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
            optimizer.adam.load_state_dict(named)
