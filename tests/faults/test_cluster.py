"""A machine of a cluster that is lost in the middle of a study."""

import threading
import time

import pytest

from outland.errors import OutlandError
from outland.studies.engines.ray import RayEngine
from outland.studies.runner import run_study
from tests.faults.harness import REPETITIONS
from tests.studies.cases import ROWS, cells_of, records

pytestmark = pytest.mark.faults
SEEDS = 6 if REPETITIONS >= 1 else 2
RUNS = SEEDS * len(ROWS)


@pytest.fixture(scope="module")
def by_hand(motif, cache, tmp_path_factory):
    """Short runs, one after another in this process."""
    folder = tmp_path_factory.mktemp("by-hand")
    study, cells = cells_of(SEEDS)
    assert run_study(study, cells, folder, device="cpu", cache=cache).states == {"done": RUNS}
    return records(folder)


@pytest.fixture(scope="module")
def two_nodes():
    """A cluster of two machines with a core each, both of them here; the second can be killed."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'outland[ray]'")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = cluster.add_node(num_cpus=1)
    yield cluster, second
    cluster.shutdown()


def test_a_study_outlives_a_machine_of_its_cluster(by_hand, two_nodes, cache, tmp_path, tally):
    cluster, second = two_nodes
    study, cells = cells_of(SEEDS)
    at_the_kill = []

    def kill_half_way():
        until = time.monotonic() + 120
        while time.monotonic() < until and len(list(tmp_path.glob("runs/*/record.json"))) < RUNS // 2:
            time.sleep(0.01)
        at_the_kill.append(len(list(tmp_path.glob("runs/*/record.json"))))
        cluster.remove_node(second, allow_graceful=False)

    killer = threading.Thread(target=kill_half_way)
    killer.start()
    outcome = run_study(study, cells, tmp_path, device="cpu", cache=cache, engine=RayEngine(address=cluster.address))
    killer.join()
    assert RUNS // 2 <= at_the_kill[0] < RUNS
    assert outcome.states == {"done": RUNS}
    assert records(tmp_path) == by_hand
    tally("kills", "machines of a cluster")
    if REPETITIONS >= 1:
        check_send_back(study, cluster, by_hand, cache, tmp_path / "sent")


def check_send_back(study, cluster, by_hand, cache, sent):
    """By the machine that is left, without a folder that both see."""
    engine = RayEngine(address=cluster.address, send_back=True)
    few = cells_of(2, ROWS[:2])[1]
    assert run_study(study, few, sent, device="cpu", cache=cache, engine=engine).states == {"done": 4}
    assert records(sent) == {name: by_hand[name] for name in records(sent)}
    assert len(list(sent.glob("runs/*/model/*.safetensors"))) == 4
    assert not list(sent.glob("runs/*/checkpoints"))
    assert not run_study(study, few, sent, device="cpu", cache=cache, engine=engine).executed
    with pytest.raises(OutlandError, match="no machine of the cluster has 64 CPUs and 0 GPUs"):
        run_study(study, cells_of(3)[1], sent, cache=cache, engine=RayEngine(address=cluster.address, cpus=64))
