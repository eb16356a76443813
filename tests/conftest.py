"""Data that many tests share. Motif is generated once for all test processes."""

import gc
import multiprocessing
import os
import pickle
import signal
from functools import partial
from importlib.util import find_spec
from pathlib import Path

if not Path("/dev/nvidiactl").exists():  # no GPU: Triton interprets the kernels; it asks when it is first imported
    os.environ["TRITON_INTERPRET"] = "1"

import pytest
import torch
from torch_geometric.data import Data

from outland.datasets import DataFolder, find_dataset
from outland.graphs import Batches, Cache, Features, GraphBatch, PackedGraphs, Schema, Splits, Task
from tests.faults.harness import warm_server

if "PYTEST_CURRENT_TEST" not in os.environ:  # set where a test has started another process
    torch.set_num_threads(1)


SAMPLES = Path(__file__).parent / "data"


def pytest_addoption(parser):
    """Know the settings of pytest-timeout where it is not installed, as on a machine that is there for its GPU."""
    if find_spec("pytest_timeout") is None:
        parser.addini("timeout", "seconds after which a test fails")


def pytest_configure(config):
    gc.disable()  # until the tests are found: all that is imported stays
    if find_spec("pytest_timeout") is None:
        config.addinivalue_line("markers", "timeout(seconds): of one test")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Keep the time limit of a test, as pytest-timeout does where it is installed."""
    if find_spec("pytest_timeout") is not None:
        return (yield)
    mark = item.get_closest_marker("timeout")
    seconds = int(mark.args[0] if mark is not None else item.config.getini("timeout"))
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail(f"it took longer than {seconds} s"))
    signal.alarm(seconds)
    try:
        return (yield)
    finally:
        signal.alarm(0)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop():
    gc.enable()  # here, for the process that gives tests to others collects none, and only waits for them


def pytest_unconfigure():
    gc.enable()  # where the tests were not found
    gc.unfreeze()  # libraries complain at the end of what they find not freed


@pytest.fixture(scope="module", autouse=True)
def frozen_heap():
    """The garbage collector passes over what earlier modules left: most of it is code, and takes it long."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def data() -> DataFolder:
    """The full raw files, in the folder that `OUTLAND_DATA` names."""
    if not os.environ.get("OUTLAND_DATA"):
        pytest.skip("the full datasets are not here: set OUTLAND_DATA to the folder that holds them")
    return DataFolder()


@pytest.fixture(scope="session")
def cache(tmp_path_factory) -> Cache:
    """One cache for all test processes."""
    base = tmp_path_factory.getbasetemp()
    return Cache((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "outland-cache")


@pytest.fixture(scope="session", autouse=True)
def warm_workers():
    """Worker processes are forked from a warm server: spawned ones import PyTorch for seconds, each of them."""

    def context(_: str):
        return warm_server()  # now: where a process is started, interrupts are held back

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("outland.workers.get_context", context)
        yield


@pytest.fixture(scope="session", autouse=True)
def samples_read_once():
    """Molecules that many tests read in this process are featurized for the first of them."""
    from outland.chem import smiles

    map_ordered, known = smiles.map_ordered, {}

    def read(function, batch):
        is_fault = os.environ.get("PYTEST_CURRENT_TEST", "").startswith("tests/faults")  # what is hostile is timed
        if is_fault or any(type(text) is not str for _, text in batch):
            return function(batch)
        key = (function.keywords["options"], *batch)
        if key not in known and len(known) == 50:
            known.clear()
        if key not in known:
            known[key] = pickle.dumps(function(batch))
        return pickle.loads(known[key])

    def mapped(function, items, workers):
        return map(partial(read, function), items) if workers < 2 else map_ordered(function, items, workers)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(smiles, "map_ordered", mapped)
        yield


@pytest.fixture
def spawned_workers(monkeypatch):
    """Worker processes as users have them."""
    monkeypatch.setattr("outland.workers.get_context", multiprocessing.get_context)


@pytest.fixture(scope="session")
def fitted():
    """A small AIA on the BBBP sample."""
    from outland.estimators import GraphClassifier
    from tests.models.cases import SMALL, bbbp

    return GraphClassifier("aia", epochs=6, backbone=SMALL, method_params={"lr": 0.01}).fit(*bbbp())


@pytest.fixture(scope="session")
def model_folder(fitted, tmp_path_factory) -> Path:
    """The folder of `fitted`."""
    return fitted.save(tmp_path_factory.mktemp("models") / "bbbp")


@pytest.fixture
def quick_shift(monkeypatch):
    """Shifts from a model's training graphs, measured roughly."""
    from outland.shift import ShiftSettings, measure_shift

    rough = ShiftSettings(trials=1, most=60, folds=3, steps=20, samples=1000)

    def measure(*sides, settings, **rest):
        return measure_shift(*sides, settings=rough, **rest)

    monkeypatch.setattr("outland.shift.measure.measure_shift", measure)


def make_fits_quick(monkeypatch):
    """Let fits happen in this process, with few trees."""
    from outland.estimators.contenders import VECTOR_MODELS

    for name in ("forest", "boosting"):
        monkeypatch.setitem(VECTOR_MODELS, name, partial(VECTOR_MODELS[name], trees=12))
    monkeypatch.setattr("outland.estimators.fitting.available_cores", lambda: 1)


@pytest.fixture
def quick_fit(monkeypatch):
    """Fits in this process, with few trees."""
    make_fits_quick(monkeypatch)


@pytest.fixture(scope="session")
def motif(cache) -> Splits:
    return find_dataset("motif").load("base", "covariate", cache=cache)


def undirected(*pairs: tuple[int, int]) -> torch.Tensor:
    both = [*pairs, *((v, u) for u, v in pairs)]
    return torch.tensor(both, dtype=torch.long).reshape(-1, 2).T


def odd_graphs(seed: int = 0) -> list[Data]:
    """Small graphs of every awkward kind, with real features of width 3: no edges, one node, a self-loop, one way."""
    random = torch.Generator().manual_seed(seed)
    edges = [
        (5, undirected((0, 1), (1, 2), (2, 3), (3, 4), (4, 0))),
        (1, undirected()),
        (4, undirected()),
        (3, torch.tensor([[0, 1, 2, 2], [1, 0, 2, 0]])),
        (6, undirected((0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 2))),
        (2, undirected((0, 1))),
    ]
    return [
        Data(
            x=torch.randn(n, 3, generator=random),
            edge_index=edge_index,
            y=torch.tensor([i % 3]),
            environment=torch.tensor([i % 2]),
        )
        for i, (n, edge_index) in enumerate(edges)
    ]


REAL = Schema(Features(3), Task("multiclass", 3, "accuracy"), environments=2)
CHEMICAL = Schema(Features(2, (5, 3)), Task("binary", 2, "rocauc"), Features(1, (4,)), environments=2)


def chemical_graphs(seed: int = 0) -> list[Data]:
    """The same shapes with categorical nodes and edges, two yes/no labels, some unknown."""
    random = torch.Generator().manual_seed(seed)
    graphs = []
    for i, graph in enumerate(odd_graphs(seed)):
        x = torch.stack([torch.randint(0, k, (len(graph.x),), generator=random) for k in (5, 3)], dim=1)
        kinds = torch.randint(0, 4, (graph.edge_index.shape[1], 1), generator=random)
        y = torch.tensor([[float(i % 2), float("nan") if i % 3 == 0 else 1.0 - i % 2]])
        graphs.append(Data(x=x, edge_index=graph.edge_index, edge_attr=kinds, y=y, environment=graph.environment))
    return graphs


def whole(graphs: PackedGraphs, layout: str = "exact") -> GraphBatch:
    """All graphs of a set as one batch; a padded one has room for two more, so that padding graphs are there too."""
    size = len(graphs) + (2 if layout == "padded" else 0)
    return next(iter(Batches(graphs, torch.arange(len(graphs)), size, layout=layout)))


SETS = {"real": (REAL, odd_graphs), "chemical": (CHEMICAL, chemical_graphs)}


@pytest.fixture(params=SETS)
def any_set(request) -> tuple[Schema, PackedGraphs]:
    schema, make = SETS[request.param]
    return schema, PackedGraphs.from_data_list(make())


@pytest.fixture
def any_splits(any_set) -> Splits:
    """Twenty-four small graphs of every awkward kind, split in three."""
    schema, graphs = any_set
    many = graphs.select(torch.arange(len(graphs)).repeat(4))
    index = torch.arange(24)
    return Splits(many, {"train": index[:12], "val": index[12:18], "test": index[18:]}, schema)
