"""ERM and AIA as such code is usually written: PyG's DataLoader, eager layers, a backward pass through everything.

It computes what `outland` computes (the released reading of AIA), and is here to be timed against and nothing else. As
is usual, gradients are taken of everything a loss touches and wiped where they are not wanted, and evaluation calls the
forward that training calls.
"""

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import MessagePassing, global_mean_pool

from outland.graphs import Features, Schema


class Conv(MessagePassing):
    """A GIN layer with a weight on every message."""

    def __init__(self, inputs: int, width: int, edges: Features | None) -> None:
        super().__init__(aggr="add")
        self.mlp = nn.Sequential(
            nn.Linear(inputs, 2 * width), nn.BatchNorm1d(2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )
        self.eps = nn.Parameter(torch.zeros(1))
        self.edges = Categories(edges, inputs) if edges else None

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, weight: Tensor | None) -> Tensor:
        states = None if self.edges is None else self.edges(edge_attr)
        return self.mlp((1 + self.eps) * x + self.propagate(edge_index, x=x, states=states, weight=weight))

    def message(self, x_j, states, weight):  # PyG reads this signature itself
        message = torch.relu(x_j if states is None else x_j + states)
        return message if weight is None else message * weight[:, None]


class Categories(nn.Module):
    """The sum of one embedding for each column of categories."""

    def __init__(self, features: Features, width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, width) for size in features.vocabulary)

    def forward(self, x: Tensor) -> Tensor:
        total = 0
        for column, table in enumerate(self.tables):
            total = total + table(x[:, column].long())
        return total


class Encoder(nn.Module):
    """A stack of layers with batch norm, ReLU and dropout."""

    def __init__(
        self, schema: Schema, width: int, layers: int, inputs: int | None = None, dropout: float = 0.5
    ) -> None:
        super().__init__()
        self.start = None
        if inputs is None:
            self.start = Categories(schema.node, width) if schema.node.vocabulary else None
            inputs = width if self.start is not None else schema.node.width
        widths = [inputs] + [width] * (layers - 1)
        self.convs = nn.ModuleList(Conv(size, width, schema.edge) for size in widths)
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in widths)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, data: Batch, node: Tensor | None = None, edge: Tensor | None = None) -> Tensor:
        if self.start is not None:
            x = self.start(x)
        if node is not None:
            x = x * node[:, None]
        for layer, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = norm(conv(x, data.edge_index, data.get("edge_attr"), edge))
            x = self.dropout(x if layer == len(self.convs) - 1 else x.relu())
        return x


class Masker(nn.Module):
    """Node and edge masks from an encoder of their own."""

    def __init__(self, schema: Schema, width: int, dropout: float = 0.5) -> None:
        super().__init__()
        self.encoder = Encoder(schema, width, 2, dropout=dropout)
        self.node, self.edge = nn.Linear(width, 1), nn.Linear(2 * width, 1)

    def forward(self, data: Batch) -> tuple[Tensor, Tensor]:
        z = self.encoder(data.x, data)
        source, target = data.edge_index
        pairs = torch.cat([z[source], z[target]], dim=1)
        return self.node(z).sigmoid().squeeze(1), self.edge(pairs).sigmoid().squeeze(1)


class ERM(nn.Module):
    """A classifier of whole graphs."""

    def __init__(self, schema: Schema, width: int, dropout: float = 0.5) -> None:
        super().__init__()
        self.schema = schema
        self.encoder = Encoder(schema, width, 4, dropout=dropout)
        self.head = nn.Linear(width, schema.task.outputs)
        self.optimizer: torch.optim.Optimizer | None = None

    def forward(self, data: Batch) -> Tensor:
        return self.head(global_mean_pool(self.encoder(data.x, data), data.batch, data.num_graphs))

    def risk(self, logits: Tensor, data: Batch) -> Tensor:
        if self.schema.task.kind == "multiclass":
            return nn.functional.cross_entropy(logits, data.y)
        known = ~data.y.isnan()
        return nn.functional.binary_cross_entropy_with_logits(logits[known], data.y[known])

    def step(self, data: Batch) -> None:
        """One training step."""
        if self.optimizer is None:
            self.optimizer = torch.optim.Adam(self.parameters(), 1e-3, weight_decay=5e-6)
        self.train()
        self.optimizer.zero_grad()
        self.risk(self(data), data).backward()
        self.optimizer.step()


class AIA(ERM):
    """Two mask networks and a classifier whose first half reads the graph unmasked; settings of `AIA.released()`."""

    def __init__(self, schema: Schema, width: int, dropout: float = 0.5) -> None:
        super().__init__(schema, width, dropout)
        self.front = Encoder(schema, width, 2, dropout=dropout)
        self.encoder = Encoder(schema, width, 2, inputs=width, dropout=dropout)
        self.generator, self.augmenter = Masker(schema, width, dropout), Masker(schema, width, dropout)
        self.optimizers: list[torch.optim.Optimizer] = []

    def embed(self, states: Tensor, data: Batch, masks: tuple[Tensor, Tensor] | None) -> Tensor:
        node, edge = masks if masks is not None else (None, None)
        return global_mean_pool(self.encoder(states, data, node, edge), data.batch, data.num_graphs)

    def both(self, data: Batch) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        """Logits of the stable and of the augmented graph, and the stable masks: one forward for all uses."""
        states, adversarial, stable = self.front(data.x, data), self.augmenter(data), self.generator(data)
        merged = tuple((1 - fixed) * mask + fixed for fixed, mask in zip(stable, adversarial, strict=True))
        return self.head(self.embed(states, data, stable)), self.head(self.embed(states, data, merged)), stable

    def forward(self, data: Batch) -> Tensor:
        return self.both(data)[0]

    @staticmethod
    def ratio(masks: tuple[Tensor, Tensor], data: Batch, shares: tuple[float, float]) -> Tensor:
        """Penalty on the distance of each graph's shares of nodes and of edges from the target shares."""
        owner = data.batch[data.edge_index[0]]
        total = 0
        for values, where, share in zip(masks, (data.batch, owner), shares, strict=True):
            mean = global_mean_pool(values[:, None], where, data.num_graphs)
            above = global_mean_pool((values > 0).float()[:, None], where, data.num_graphs)
            total = total + ((mean - share).abs() + (above - share)).mean()
        return total

    def step(self, data: Batch) -> None:
        """Both moves of a training step."""
        if not self.optimizers:
            stable = [*self.front.parameters(), *self.encoder.parameters(), *self.head.parameters()]
            stable += list(self.generator.parameters())
            self.optimizers = [
                torch.optim.Adam(stable, 1e-3, weight_decay=5e-6),
                torch.optim.Adam(self.augmenter.parameters(), 5e-3, weight_decay=5e-6),
            ]
        self.train()
        self.augmenter.eval()
        self.zero_grad()
        alone, augmented, stable = self.both(data)
        (self.risk(alone, data) + self.risk(augmented, data) + self.ratio(stable, data, (0.5, 0.5))).backward()
        self.optimizers[0].step()
        self.eval()
        self.augmenter.train()
        self.zero_grad()
        states, adversarial = self.front(data.x, data), self.augmenter(data)
        augmented, original = self.embed(states, data, adversarial), self.embed(states, data, None)
        loss = -self.risk(self.head(augmented), data) + 0.2 * (augmented - original).square().mean()
        (loss + 0.5 * self.ratio(adversarial, data, (1.0, 0.8))).backward()
        self.optimizers[1].step()
