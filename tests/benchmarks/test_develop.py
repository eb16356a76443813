"""The prototype of a method of our own, and the table of the docs made of what was tried."""

import dataclasses
import json
import math
import statistics
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from outland.graphs import Batches, PackedGraphs
from outland.methods import Progress, build_method, method_settings
from outland.methods.cal import uniform_divergence
from outland.spec import RunSpec, load_splits
from tests.cases import SMALL
from tests.conftest import whole

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import fidelity  # noqa: E402
import thinning  # noqa: E402
from develop import DATA_SEED, PUBLISHED_SEED, summary  # noqa: E402
from draws import SIZES, dataset_of, make_draw, rank_of_group  # noqa: E402

PROTOTYPES = ROOT / "benchmarks" / "prototypes"
EVIDENCE, BARE = f"{PROTOTYPES / 'evidence.py'}:Evidence", f"{PROTOTYPES / 'bare.py'}:Bare"
MOLECULAR = f"{PROTOTYPES / 'molecular.py'}:Molecular"
SPARE = f"{PROTOTYPES / 'spare.py'}:Spare"


@pytest.fixture
def batch(motif):
    return next(iter(Batches(motif.graphs, motif["train"][:32], 32)))


def spare(motif, **changes):
    torch.manual_seed(0)
    return build_method(SPARE, motif.schema, SMALL, method_settings(SPARE, changes))


def test_the_table_of_the_docs_is_that_of_the_log():
    rows = [json.loads(line) for line in (ROOT / "results" / "development.jsonl").read_text().splitlines()]
    text = (ROOT / "docs" / "ours.md").read_text()
    assert text.partition("<!-- log -->\n")[2].partition("\n<!-- /log -->")[0] == summary(rows)
    assert len(rows) == len({row["line"] for row in rows})
    assert {row["data_seed"] for row in rows} == {DATA_SEED} != {PUBLISHED_SEED}


SHORT = ("middle", "large", "tree-ladder")
ALONE = {"method.gate=false", "method.layer=false", "method.mix=0.0", "method.whole=1.0", "method.readout=backbone"}


MAXIMUM = {"backbone.pool=max", "backbone.dropout=0.2"}
NO_PARTS = {"method.gate=false", "method.layer=false", "method.head=linear", "method.drop=0"}


@pytest.mark.parametrize(
    ("label", "method", "words"),
    [
        ("ERM", "erm", {"backbone.pool=mean"}),
        ("DropEdge, maximum, dropout 0.2", "dropedge", MAXIMUM),
        ("CAL", "cal", set()),
        ("Gate, layer and maximum, thinned and bare graphs", "bare.py:Bare", set()),
        ("Closed walks alone, with ERM's mean", "evidence", ALONE),
        ("Evidence without thinning, unmixed", "evidence", {"method.mix=0.0", "method.whole=1.0"}),
        ("Evidence, unmixed", "evidence", {"method.mix=0.0"}),
    ],
)
def test_the_short_table_of_the_docs_is_that_of_the_log(label, method, words):
    scores = {}
    for line in (ROOT / "results" / "development.jsonl").read_text().splitlines():
        row = json.loads(line)
        draw, name, _, *changes = row["line"].split()
        wanted = ("evidence.py:Evidence", NO_PARTS) if (label, draw) == ("ERM", "large") else (method, words)
        if (name.rpartition("/")[2], set(changes)) == (wanted[0], wanted[1] | {"train.epochs=50"}):
            scores.setdefault(draw, []).append(row["val"]["test"])
    cells = [f"{statistics.fmean(scores[draw]):.1f}" if draw in scores else "–" for draw in SHORT]
    assert cells.count("–") == (label == "CAL")
    assert f"| {label} | {' | '.join(cells)} |" in (ROOT / "docs" / "ours.md").read_text()


@pytest.mark.parametrize(
    ("block", "file", "table"),
    [("thinning", "results/thinning.json", thinning.table), ("fidelity", "benchmarks/fidelity.json", fidelity.table)],
)
def test_tables_of_explanations_are_those_that_were_measured(block, file, table):
    page = (ROOT / "docs" / "ours.md").read_text()
    shown = page.partition(f"<!-- {block} -->\n")[2].partition(f"\n<!-- /{block} -->")[0]
    assert shown == table(json.loads((ROOT / file).read_text()))
    assert len(shown.splitlines()) > 5


def test_both_trainings_have_as_many_networks():
    rows = json.loads((ROOT / "results" / "thinning.json").read_text())
    counts = Counter((row["draw"], row["training"]) for row in rows)
    assert counts == {(draw, kind): 2 for draw in thinning.DRAWS for kind in thinning.KINDS}


def test_a_summary_is_a_mean_over_seeds():
    rows = [
        {
            "line": f"middle m {seed} train.epochs=50 a.b=1",
            "val": {"test": 50 + seed},
            "id_val": {"test": 1.0},
            "mask": {},
        }
        for seed in (0, 1)
    ]
    assert summary(rows).splitlines()[2] == "| m b=1 | – | – | – | – | – | 50.5 / 1.0 | – |"
    assert all(max(train) < val < test for train, val, test in SIZES.values())


def test_a_summary_of_molecules_is_beside_erm_on_the_same_draws():
    def row(line, score):
        return {"line": line, "val": {"test": score}, "id_val": {"test": 1.0}, "mask": {}}

    rows = [row(f"bbbp-size-{draw} erm 0 train.epochs=100", 70 + 10 * draw) for draw in range(3)]
    rows += [row(f"bbbp-size-{draw} m 0 train.epochs=100", 73 + 10 * draw) for draw in range(2)]
    rows += [row(f"cmnist-0-1 m {seed} train.epochs=50", 40 + seed) for seed in range(2)]
    digits, molecules = summary(rows).split("\n\n")
    assert digits.splitlines()[2] == "| m | 40.5 / 1.0 |"
    assert molecules.splitlines()[2:] == ["| erm | 80.0 / 1.0<br>*+0.0, 3* |", "| m | 78.0 / 1.0<br>*+3.0, 2* |"]
    without_one = [row for row in rows if not row["line"].startswith("bbbp-size-0 erm")]
    without_any = [row for row in rows if " erm " not in row["line"]]
    for some in (without_one, without_any):
        assert summary(some).splitlines()[-1] == "| m | 78.0 / 1.0<br>*–, 2* |"


def test_where_nothing_is_dropped_it_is_erm(motif, batch):
    erm = build_method("erm", motif.schema, SMALL, method_settings("erm", {}))
    method = spare(motif, blur=0, drop=0, least=0, absence=0, worth=1, statistics="both")
    erm.load_state_dict({name: value for name, value in method.state_dict().items() if name.startswith("classifier")})
    erm.eval()
    method.eval()
    risk = erm.loss(batch, Progress())["risk"].detach()
    terms = {name: term.detach() for name, term in method.loss(batch, Progress()).items()}
    assert float(terms["first"]) == float(terms["second"]) == pytest.approx(float(risk), rel=1e-6)
    assert float(terms["worth"]) == 0.0


@pytest.mark.parametrize("scorer", ["own", "shared"])
def test_what_is_worth_more_is_dropped_less(motif, batch, scorer):
    method = spare(motif, drop=0.8, least=0.1, scorer=scorer)
    with torch.no_grad():
        for bias, rate in ((-30.0, 0.8), (30.0, 0.1)):
            method.last.weight.zero_()
            method.last.bias.fill_(bias)
            dropped = torch.stack([1 - method.augment(batch).edge for _ in range(40)])
            assert float(dropped.mean()) == pytest.approx(rate, abs=0.02)
            assert (dropped == dropped[:, batch.reverse]).all()
    assert set(method.masks(batch)) == {"stable"}


def test_the_evidence_is_taken_from_the_graphs_that_are_to_lose_it(motif):
    method = spare(motif, drop=0.5, least=0.1, take=0.9)
    worth, loses = torch.tensor([0.0, 1.0, 0.0, 1.0]), torch.tensor([False, False, True, True])
    assert method.rate(worth, loses).tolist() == pytest.approx([0.5, 0.1, 0.1, 0.9])


def test_the_predicted_harm_is_the_worth_of_the_dropped_edges(motif, batch, monkeypatch):
    method = spare(motif, blur=0, absence=0, worth=1).eval()
    with torch.no_grad():
        method.last.weight.zero_()
        method.last.bias.zero_()  # each edge is worth a half
        method.log_scale.fill_(1.0)
    gone = batch.edge_batch == 0  # all edges of the first graph
    monkeypatch.setattr(method, "rate", lambda worth, loses: torch.where(gone, 2.0, -1.0))
    predicted = {}
    monkeypatch.setitem(
        method.loss.__globals__, "huber_loss", lambda guess, harm, **rest: predicted.setdefault("x", guess)
    )
    method.loss(batch, Progress())
    expected = torch.zeros(32)
    expected[0] = math.e * 0.5 * int(batch.edge_count[0]) / 2
    assert predicted["x"].detach().tolist() == pytest.approx(expected.tolist(), rel=1e-5)


def test_the_worth_reaches_no_weight_of_the_classifier(motif, batch):
    method = spare(motif, scorer="shared")
    method.loss(batch, Progress())["worth"].backward()
    assert all(parameter.grad is None for parameter in method.classifier.parameters())
    assert float(method.last.weight.grad.abs().sum()) > 0


def test_the_prototype_of_evidence_is_the_method(motif, batch):
    """The same embeddings from the same weights, on whole and on thinned graphs; it has no closed walks."""
    backbone = dataclasses.replace(SMALL, pool="max")
    changes = {"head": "linear", "rates": "uniform", "drop": 0.5, "whole": 0.5, "heavy": 0.25}
    prototype = build_method(EVIDENCE, motif.schema, backbone, method_settings(EVIDENCE, changes)).eval()
    method = build_method("evidence", motif.schema, SMALL, method_settings("evidence", {"walks": 0})).eval()
    names = {"node": "node_gate", "edge": "edge_gate", "conv": "layer", "norm": "norm", "pool": "classifier.readout"}
    names |= {"encoder": "classifier.encoder", "head": "classifier.head.linear"}
    state = {}
    for name, value in prototype.state_dict().items():
        first, _, rest = name.partition(".")
        state[f"{names[first]}.{rest}"] = value
    method.load_state_dict(state)
    edge = method.thin(batch, torch.full((33,), 0.4))
    with torch.no_grad():
        assert torch.equal(method.readout(batch), prototype.readout(batch))
        assert torch.equal(method.readout(batch, edge), prototype.parts(batch, edge)[0])
        assert torch.equal(method(batch), prototype(batch))


def test_bare_graphs_are_to_predict_nothing(motif, batch):
    method = build_method(BARE, motif.schema, SMALL, method_settings(BARE, {"bare": 1, "absence": 2}))
    state = method.random.get_state()
    terms = method.loss(batch, Progress())
    method.random.set_state(state)
    rate, is_bare = method.draw_bare(batch)
    logits = method.classifier.head(method.readout(batch, method.thin(batch, rate)), batch)
    assert is_bare.all()
    assert float(rate[:-1].min()) >= 0.5  # the last is of padding
    assert float(terms["risk"].detach()) == 0
    expected = 2 * float(uniform_divergence(logits, batch, motif.schema.task).mean().detach())
    assert float(terms["absence"].detach()) == pytest.approx(expected, rel=1e-5)
    assert expected > 0


def test_more_for_molecules_is_evidence_where_it_adds_nothing(any_set):
    schema, graphs = any_set
    if schema.edge is None:
        pytest.skip("graphs without features of edges are no molecules")
    changes = {"readout": "backbone", "walks": 0}
    more = build_method(MOLECULAR, schema, SMALL, method_settings(MOLECULAR, changes)).eval()
    method = build_method("evidence", schema, SMALL, method_settings("evidence", changes)).eval()
    method.load_state_dict({name: value for name, value in more.state_dict().items() if not name.startswith("atoms.")})
    batch = whole(graphs)
    with torch.no_grad():
        assert torch.allclose(more(batch), method(batch), atol=1e-6)


def test_equal_neighbourhoods_are_counted_together(any_set):
    schema, graphs = any_set
    if schema.edge is None:
        pytest.skip("graphs without features of edges are no molecules")
    method = build_method(MOLECULAR, schema, SMALL, method_settings(MOLECULAR, {"buckets": 512, "radius": 1}))
    batch = whole(graphs)
    counts = method.neighbourhoods(batch).expm1()
    assert counts.sum(1).tolist() == pytest.approx((2 * batch.node_count).tolist())  # each atom alone, with neighbours
    twice = method.neighbourhoods(whole(PackedGraphs.concatenate([graphs, graphs]))).expm1()
    assert torch.equal(twice, counts.repeat(2, 1))
    assert int((counts > 0).sum()) > 10


@pytest.mark.parametrize("domain", ["scaffold", "size"])
def test_draws_of_molecules_are_of_those_that_molbbbp_trains_on(data, cache, monkeypatch, domain):
    monkeypatch.setenv("OUTLAND_CACHE", str(cache.folder))
    both = [
        load_splits(RunSpec.make("molbbbp", "erm", each, "covariate"), torch.device("cpu"))
        for each in ("scaffold", "size")
    ]
    published = both[0]
    trained = published["train"][torch.isin(published["train"], both[1]["train"])]
    assert 1200 < len(trained) < 1500
    draws = [make_draw(f"bbbp-{domain}-{number}", DATA_SEED, torch.device("cpu")) for number in (0, 1)]
    for draw in draws:
        rows = torch.cat(list(draw.parts.values()))
        assert torch.equal(rows.sort().values, trained.sort().values)
        shares = [len(draw[part]) / len(rows) for part in ("train", "id_val", "val", "test")]
        assert shares == pytest.approx([0.6, 0.1, 0.15, 0.15], abs=0.002)
    assert not torch.equal(draws[0]["test"].sort().values, draws[1]["test"].sort().values)
    sizes, test = published.graphs.node_counts, draws[0]["test"]
    if domain == "size":
        assert int(sizes[test].max()) <= int(sizes[draws[0]["train"]].min())
    else:
        scaffold = published.graphs.extra["scaffold"]
        inside, outside = (
            torch.cat([scaffold[draws[0][part]] for part in parts]) for parts in (("train", "id_val"), ("val", "test"))
        )
        assert len(set(inside.tolist()) & set(outside.tolist())) <= 1  # the one in which the share is reached
        assert len(set(scaffold[draws[0]["val"]].tolist()) & set(scaffold[test].tolist())) <= 1


def test_common_scaffolds_are_the_last_to_be_held_out():
    scaffold = torch.arange(100).clamp(min=94) - 94  # one of 95 molecules, five of one
    graphs = SimpleNamespace(extra={"scaffold": scaffold}, environment=None)
    for seed in range(5):
        rank = rank_of_group(SimpleNamespace(graphs=graphs), torch.arange(100), torch.Generator().manual_seed(seed))
        assert len(set(rank[:95].tolist())) == 1
        assert int(rank[0]) > int(rank[95:].max())
        assert len(set(rank[95:].tolist())) == 5


def test_a_draw_names_its_dataset_and_domain():
    assert dataset_of("large") == ("motif", "size")
    assert dataset_of("star-path") == ("motif", "base")
    assert dataset_of("bbbp-size-2") == ("molbbbp", "size")
