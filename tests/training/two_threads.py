"""Trainings on two threads, in a process of its own: `python -m tests.training.two_threads`."""

import torch
from torch_geometric.data import Data

from outland.graphs import Features, PackedGraphs, Schema, Task
from outland.methods import Progress, build_method, method_settings
from outland.nn import BACKBONES, BackboneSettings
from outland.training import TrainSettings
from outland.training.stepper import Stepper


def distinct_results(name: str, kind: str) -> int:
    """How many different models four trainings give, on one graph whose edges are in no order.

    Both threads then add to the same nodes.
    """
    from tests.conftest import whole

    random = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 300, (2, 6000), generator=random)
    graph = Data(x=torch.randn(300, 1, generator=random), edge_index=edges, y=torch.tensor([1]))
    batch = whole(PackedGraphs.from_data_list([graph]))
    schema = Schema(Features(1), Task("multiclass", 3, "accuracy"))

    def weights() -> tuple[float, ...]:
        torch.manual_seed(0)
        method = build_method(name, schema, BackboneSettings(kind=kind, width=16, layers=3), method_settings(name, {}))
        stepper = Stepper(method, TrainSettings())
        stepper.step(batch, Progress())
        return tuple(float(parameter.detach().double().sum()) for parameter in stepper.parameters)

    return len({weights() for _ in range(4)})


if __name__ == "__main__":
    print(torch.get_num_threads())
    for kind in BACKBONES:
        print(distinct_results("erm", kind))
    print(distinct_results("aia", "gin"))
