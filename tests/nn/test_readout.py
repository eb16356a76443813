import dataclasses

import pytest
import torch

from outland.graphs import PackedGraphs
from outland.nn import BackboneSettings, GraphNet, Mask, Readout
from tests.conftest import REAL, odd_graphs, whole
from tests.nn.cases import SETTINGS, doubled, network

POOLS = ("mean", "sum", "max", "softmax", "attention")


def random_readout(pool, **options):
    """A readout whose temperature and query are not those of the start."""
    readout = Readout(BackboneSettings(width=4, pool=pool, **options)).double()
    for parameter in readout.parameters():
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(0))
    return readout


def of_one(readout, z, weight):
    """The readout of one graph, from the formulas."""
    here = weight > 0
    match readout.pool_name:
        case "mean":
            return (z * weight[:, None]).sum(0) / weight.sum()
        case "sum":
            return (z * weight[:, None]).sum(0)
        case "max":
            return z[here].amax(0)
        case "softmax":
            tau = readout.log_temperature.exp()
            return tau * (weight[:, None] * (z / tau).exp()).sum(0).log()
        case _:
            powers = weight * (z @ readout.query).exp()
            return (powers / powers.sum()) @ z


@pytest.mark.parametrize("layout", ["exact", "padded"])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("pool", POOLS)
def test_readouts_are_their_formulas_and_heed_weights(pool, unit, layout):
    batch = doubled(whole(PackedGraphs.from_data_list(odd_graphs()), layout))
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(batch.num_nodes, 4, generator=generator, dtype=torch.double)
    weight = torch.rand(batch.num_nodes, generator=generator, dtype=torch.double)
    weight[::3] = 0
    readout = random_readout(pool, unit_readout=unit, masked_readout=True)
    for given in (None, weight):
        actual = readout(z, batch, given)
        for graph in range(6):
            here = batch.node_batch == graph
            shares = torch.ones_like(weight[here]) if given is None else weight[here]
            expected = of_one(readout, z[here], shares) if shares.any() else torch.zeros(4, dtype=torch.double)
            expected = expected / expected.norm() if unit and shares.any() else expected
            assert torch.allclose(actual[graph], expected, atol=1e-12)


def test_a_mean_and_a_sum_take_every_node_unless_told_otherwise():
    batch = doubled(whole(PackedGraphs.from_data_list(odd_graphs())))
    z, weight = torch.randn(batch.num_nodes, 4).double(), torch.rand(batch.num_nodes).double()
    for pool, expected in (("mean", batch.mean_nodes(z)), ("sum", batch.sum_nodes(z))):
        assert torch.equal(random_readout(pool)(z, batch, weight), expected)
        assert not torch.allclose(random_readout(pool)(z, batch, weight, masked=True), expected)
        assert not torch.allclose(random_readout(pool, masked_readout=True)(z, batch, weight), expected)


@pytest.mark.parametrize("pool", POOLS)
def test_a_node_that_is_masked_out_reaches_neither_readout_nor_gradient(pool):
    batch = doubled(whole(PackedGraphs.from_data_list(odd_graphs())))
    net = network("gin", REAL, pool=pool, masked_readout=True).eval()
    out = batch.node_batch.new_tensor([0, 3, 9, 14])
    node = torch.ones(batch.num_nodes, dtype=torch.double).index_fill(0, out, 0)
    edge = node[batch.edge_index].prod(0)
    x = batch.x.clone().requires_grad_()
    embedded = net.embed(batch.replace(x=x), Mask(node, edge))
    moved = net.embed(batch.replace(x=batch.x.index_fill(0, out, 50.0)), Mask(node, edge))
    assert torch.allclose(embedded, moved, atol=1e-12)
    (grad,) = torch.autograd.grad(embedded.square().sum(), x)
    assert (grad[out] == 0).all()
    assert (grad != 0).any()


def test_golden_unit_readout():
    """H24: of the nodes (1, 2) and (2, 2), from the sum and from the mean."""
    batch = doubled(whole(PackedGraphs.from_data_list(odd_graphs()[5:])))
    z = torch.tensor([[1.0, 2.0], [2.0, 2.0]], dtype=torch.double)
    for pool in ("sum", "mean"):
        unit = Readout(BackboneSettings(width=2, pool=pool, unit_readout=True))(z, batch)
        assert unit[0].tolist() == pytest.approx([0.6, 0.8], abs=1e-9)


def test_a_vector_of_length_0_has_a_finite_gradient():
    batch = doubled(whole(PackedGraphs.from_data_list(odd_graphs())))
    z = torch.zeros(batch.num_nodes, 4, dtype=torch.double, requires_grad=True)
    unit = random_readout("mean", unit_readout=True)(z, batch)
    assert (unit == 0).all()
    unit.sum().backward()
    assert z.grad.isfinite().all()


def test_the_start_is_a_plain_log_sum_exp_and_a_mean():
    batch = doubled(whole(PackedGraphs.from_data_list(odd_graphs())))
    z = torch.randn(batch.num_nodes, 4).double()
    assert torch.allclose(Readout(BackboneSettings(width=4, pool="attention")).double()(z, batch), batch.mean_nodes(z))
    smooth = Readout(BackboneSettings(width=4, pool="softmax")).double()(z, batch)
    assert torch.allclose(smooth, batch.sum_nodes(z.exp()).log())


def test_a_colder_softmax_comes_down_to_the_maximum():
    batch = doubled(whole(PackedGraphs.from_data_list(odd_graphs())))
    z = torch.randn(batch.num_nodes, 4).double()
    readout = Readout(BackboneSettings(width=4, pool="softmax")).double()
    torch.nn.init.constant_(readout.log_temperature, -7)
    assert torch.allclose(readout(z, batch), random_readout("max")(z, batch), atol=3e-3)


def test_a_readout_adds_nothing_to_the_weights_and_draws_of_the_other_layers():
    nets = {}
    for pool in POOLS:
        torch.manual_seed(0)
        nets[pool] = GraphNet(dataclasses.replace(SETTINGS, pool=pool), REAL).state_dict()
    assert {name: set(state) - set(nets["mean"]) for name, state in nets.items()} == {
        **{pool: set() for pool in ("mean", "sum", "max")},
        "softmax": {"readout.log_temperature"},
        "attention": {"readout.query"},
    }
    for state in nets.values():
        assert all(torch.equal(state[name], value) for name, value in nets["mean"].items())
