import os
import subprocess
import sys

import torch
from torch_geometric.data import Data

from outland.graphs import Features, PackedGraphs, Schema, Task
from outland.methods import Progress, build_method, method_settings
from outland.nn import CONVS, BackboneSettings
from outland.training import TrainSettings
from outland.training.stepper import Stepper


def test_two_threads_give_the_same_weights_every_time():
    """In a process of its own: one that has been set to one thread does not go back to two."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "tests.training.test_threads"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", *["1"] * 5]


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
        return tuple(float(parameter.detach().double().sum()) for parameter in stepper.everyone)

    return len({weights() for _ in range(4)})


if __name__ == "__main__":
    print(torch.get_num_threads())
    for kind in CONVS:
        print(distinct_results("erm", kind))
    print(distinct_results("aia", "gin"))
