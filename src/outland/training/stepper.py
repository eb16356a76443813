"""Carries out a method's phases: gradients for those who move, nothing for those who stand still."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from outland.distributed import world_size
from outland.errors import OutlandError
from outland.graphs import GraphBatch
from outland.methods import Method, Phase, Progress, Terms
from outland.training.average import Average
from outland.training.parallel import average, share_of
from outland.training.precision import computing
from outland.training.settings import TrainSettings

WATCHED = "watch."  # what a method shows beside its losses


@dataclass
class Mover:
    """A phase with its optimiser."""

    phase: Phase
    parameters: list[nn.Parameter]
    optimiser: torch.optim.Optimizer


class Stepper:
    """Takes training steps of a method.

    In each phase only the moving parameters require gradients, so that no backward pass is done for the rest, and
    only the moving modules are in training mode.

    Args:
        method: the model.
        settings: for the optimisers.
    """

    def __init__(self, method: Method, settings: TrainSettings) -> None:
        self.method, self.settings = method, settings
        self.movers = [self._mover(phase) for phase in method.phases()]
        self.everyone = list(method.parameters())
        self._zeros: dict[nn.Parameter, Tensor] = {}
        self._ones: dict[tuple[torch.dtype, torch.Size], Tensor] = {}
        self.average = Average(method, settings.average) if settings.average else None

    def _mover(self, phase: Phase) -> Mover:
        parameters = phase.parameters()
        decay = self.settings.weight_decay if phase.weight_decay is None else phase.weight_decay
        on_gpu = parameters[
            0
        ].is_cuda  # there a step may be recorded: the rate is a tensor, so that it can still change
        rate = torch.tensor(phase.lr, device=parameters[0].device) if on_gpu else phase.lr
        adam = torch.optim.Adam(parameters, rate, weight_decay=decay, fused=True, capturable=on_gpu)
        return Mover(phase, parameters, adam)

    def start_epoch(self, epoch: int) -> None:
        """Set the learning rates of an epoch."""
        for mover in self.movers:
            rate = mover.phase.lr * self.settings.lr_factor(epoch, mover.phase.schedule)
            for group in mover.optimiser.param_groups:
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(rate)
                else:
                    group["lr"] = rate

    def step(self, batch: GraphBatch, progress: Progress) -> dict[str, Tensor]:
        """One training step; the loss terms, as `phase.term`, and what is watched stay on the device."""
        log: dict[str, Tensor] = {}
        self.method.seeds.renew()
        active = [mover for mover in self.movers if progress.branch(mover.phase.when)]
        for mover in active:
            terms = self._gradients(mover, batch, progress)
            log |= {f"{mover.phase.name}.{name}": term.detach() for name, term in terms.items()}
            if self.method.update == "sequential":
                mover.optimiser.step()
        if self.method.update == "simultaneous":
            for mover in active:
                mover.optimiser.step()
        if self.average is not None:
            self.average.follow(progress)
        return log | {f"{WATCHED}{name}": value.detach().clone() for name, value in self.method.diagnostics().items()}

    def _gradients(self, mover: Mover, batch: GraphBatch, progress: Progress) -> Terms:
        self.method.eval()
        for module in mover.phase.modules:
            module.train()
        for parameter in self.everyone:
            parameter.requires_grad_(False)
        for parameter in mover.parameters:
            parameter.requires_grad_(True)
        with computing(self.settings.precision, self.everyone[0].device):
            return self._slope(mover, batch, progress)

    def _slope(self, mover: Mover, batch: GraphBatch, progress: Progress) -> Terms:
        terms = mover.phase.loss(batch, progress)
        if not isinstance(terms, dict):
            raise OutlandError(
                f"a loss must give its terms by name, as in {{'risk': ...}}, not a {type(terms).__name__}"
            )
        learned = [term for term in terms.values() if term.requires_grad]
        if not learned:
            raise OutlandError(f"no loss term of the phase '{mover.phase.name}' depends on what moves in it")
        weights = [self._one(term) for term in learned]
        if world_size() > 1:
            share = share_of(batch, learned[0].to(torch.promote_types(learned[0].dtype, torch.float32)))
            weights = [one * share.to(one.dtype) for one in weights]
        slopes = torch.autograd.grad(learned, mover.parameters, weights, allow_unused=True)
        pairs = zip(mover.parameters, slopes, strict=True)
        gradients = [self._none(parameter) if slope is None else slope for parameter, slope in pairs]
        if world_size() > 1:
            gradients = average(gradients)
        for parameter, gradient in zip(mover.parameters, gradients, strict=True):
            parameter.grad = gradient
        return terms

    def _one(self, term: Tensor) -> Tensor:
        """The slope of a loss by its own term, the same each time."""
        kind = (term.dtype, term.shape)
        if kind not in self._ones:
            self._ones[kind] = torch.ones_like(term)
        return self._ones[kind]

    def _none(self, parameter: nn.Parameter) -> Tensor:
        """A gradient of 0, the same each time: the optimiser only reads it."""
        if parameter not in self._zeros:
            self._zeros[parameter] = torch.zeros_like(parameter)
        return self._zeros[parameter]

    @contextmanager
    def rehearsal(self, *more: Tensor) -> Iterator[None]:
        """Whatever steps are taken here are undone, in place: weights, statistics, optimisers, draws, and `more`."""
        averages = [] if self.average is None else list(self.average.state().values())
        model = [*self.method.parameters(), *self.method.buffers(), *averages, *more]
        before = [tensor.detach().clone() for tensor in model]
        moments = {name: tensor.clone() for name, tensor in self.state().items()}
        streams = (self.method.random, self.method.dropout_random)
        draws = [stream.get_state() for stream in streams]
        yield
        with torch.no_grad():
            for tensor, value in zip(model, before, strict=True):
                tensor.copy_(value)
            for name, tensor in self.state().items():
                tensor.copy_(moments[name]) if name in moments else tensor.zero_()
        for stream, state in zip(streams, draws, strict=True):
            stream.set_state(state)

    def state(self) -> dict[str, Tensor]:
        """The optimisers' tensors by name."""
        named: dict[str, Tensor] = {}
        for mover in self.movers:
            for place, values in mover.optimiser.state_dict()["state"].items():
                named |= {f"{mover.phase.name}.{place}.{key}": value for key, value in values.items()}
        return named

    def restore(self, named: dict[str, Tensor]) -> None:
        """The inverse of `state`."""
        for mover in self.movers:
            plain = mover.optimiser.state_dict()
            found: dict[int, dict[str, Tensor]] = {}
            for name, value in named.items():
                phase, place, key = name.rsplit(".", 2)
                if phase == mover.phase.name:
                    found.setdefault(int(place), {})[key] = value
            mover.optimiser.load_state_dict({"state": found, "param_groups": plain["param_groups"]})
