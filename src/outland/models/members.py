"""The members of a model: networks and trees whose outputs are averaged."""

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from outland.devices import one_thread
from outland.errors import OutlandError
from outland.graphs import Batches, PackedGraphs
from outland.methods import Method
from outland.spec import RunSpec

BATCH_SIZE = 256  # the same everywhere, so that the last bit of a number never depends on who asks


class Member(Protocol):
    """What a model averages: outputs `[G, outputs]` of graphs, on the host, in units that all members share.

    These are logits for a binary task, log-probabilities for a multiclass one, and standardized numbers for regression.
    """

    @property
    def name(self) -> str:
        """In tables and on cards."""

    def outputs(self, graphs: PackedGraphs) -> Tensor:
        """Outputs of graphs, in order."""

    def to(self, device: torch.device) -> "Member":
        """The member, computing on a device."""


@dataclass(frozen=True)
class Network:
    """A method with its weights, in evaluation mode.

    Args:
        method: the network.
        spec: the run that trained it.
        offset: added to its logits, one number an output: takes back how often classes were drawn in training, so that
            probabilities are those of the table; empty for none.
    """

    method: Method
    spec: RunSpec
    offset: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """The method's."""
        return self.method.name

    def outputs(self, graphs: PackedGraphs) -> Tensor:
        """Outputs of graphs, in order."""
        return self.outputs_and_embeddings(graphs)[0]

    def outputs_and_embeddings(self, graphs: PackedGraphs) -> tuple[Tensor, Tensor | None]:
        """Outputs of graphs, and the embeddings that the last layer reads, where the method has any."""
        outputs, embeddings = run_batches(self.method, graphs)
        if self.offset:
            outputs = outputs + outputs.new_tensor(self.offset)
        return (outputs.log_softmax(1) if self.method.schema.task.kind == "multiclass" else outputs), embeddings

    def to(self, device: torch.device) -> "Network":
        """The network, computing on a device."""
        return replace(self, method=self.method.to(device).eval())


@torch.inference_mode()
def run_batches(method: Method, graphs: PackedGraphs) -> tuple[Tensor, Tensor | None]:
    """Raw outputs of graphs, and the embeddings that the method's last layer reads if it has any, on the host."""
    method.eval()
    device = next(method.parameters()).device
    outputs, embeddings = [], []
    has_embeddings = True
    with one_thread():
        for batch in Batches(graphs.to(device), torch.arange(len(graphs)), BATCH_SIZE):
            try:
                embedding = method.embed(batch) if has_embeddings else None
            except OutlandError:
                has_embeddings, embedding = False, None
            outputs.append((method(batch) if embedding is None else method.to_logits(embedding)).float().cpu())
            embeddings += [] if embedding is None else [embedding.float().cpu()]
    return torch.cat(outputs).clone(), torch.cat(embeddings).clone() if embeddings else None
