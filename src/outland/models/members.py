"""The members of a model: networks and trees whose outputs are averaged."""

from collections.abc import Sequence
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
        return run_networks([self], graphs)[0]

    def in_shared_units(self, outputs: Tensor) -> Tensor:
        """Raw outputs of the method in the units that all members share."""
        if self.offset:
            outputs = outputs + outputs.new_tensor(self.offset)
        return outputs.log_softmax(1) if self.method.schema.task.kind == "multiclass" else outputs

    def to(self, device: torch.device) -> "Network":
        """The network, computing on a device."""
        return replace(self, method=self.method.to(device).eval())


def run_networks(networks: Sequence[Network], graphs: PackedGraphs) -> list[tuple[Tensor, Tensor | None]]:
    """Outputs and embeddings of several networks on one device: each batch is collated once for all of them."""
    results = run_batches([network.method for network in networks], graphs)
    return [
        (network.in_shared_units(outputs), embeddings)
        for network, (outputs, embeddings) in zip(networks, results, strict=True)
    ]


@torch.inference_mode()
def run_batches(methods: Sequence[Method], graphs: PackedGraphs) -> list[tuple[Tensor, Tensor | None]]:
    """Of each method its raw outputs and the embeddings that its last layer reads if it has any, on the host."""
    if not methods:
        return []
    device = next(methods[0].parameters()).device
    outputs: list[list[Tensor]] = [[] for _ in methods]
    embeddings: list[list[Tensor] | None] = [[] for _ in methods]
    with one_thread():
        for batch in Batches(graphs.to(device), torch.arange(len(graphs)), BATCH_SIZE):
            for number, method in enumerate(methods):
                embedding, known = None, embeddings[number]
                if known is not None:
                    try:
                        embedding = method.eval().embed(batch)
                        known.append(embedding.float().cpu())
                    except OutlandError:
                        embeddings[number] = None
                out = method.eval()(batch) if embedding is None else method.to_logits(embedding)
                outputs[number].append(out.float().cpu())
    return [
        (torch.cat(parts).clone(), torch.cat(known).clone() if known else None)
        for parts, known in zip(outputs, embeddings, strict=True)
    ]
