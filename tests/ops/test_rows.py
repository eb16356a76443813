import pytest
import torch

from outland.graphs import PackedGraphs
from outland.ops import EdgeCSR, Segments, embedding_sum, gather_rows, masked_mean, pool, scale_rows, scatter_rows
from tests.conftest import odd_graphs, whole
from tests.ops.cases import DEVICE, close, needs_triton, random_edges


def test_gathering_and_scattering_are_each_other_s_gradient():
    batch = whole(PackedGraphs.from_data_list(odd_graphs()))
    x = torch.randn(batch.num_nodes, 4, dtype=torch.double, requires_grad=True)
    e = torch.randn(batch.num_edges, 4, dtype=torch.double, requires_grad=True)
    target, csr = batch.edge_index[1], batch.incoming
    assert torch.autograd.gradcheck(lambda x: gather_rows(x, target, csr), (x,))
    assert torch.autograd.gradcheck(lambda e: scatter_rows(e, target, batch.num_nodes, csr), (e,))


@needs_triton
@pytest.mark.parametrize("shape", [(), (5,), (3, 2)])
def test_kernels_of_gathering_and_scattering_equal_the_plain_forms(shape):
    edges, generator = random_edges(12, 40), torch.Generator().manual_seed(0)
    target, csr = edges.edge_index[1], edges.incoming
    nodes, rows = (torch.randn(count, *shape, generator=generator).to(DEVICE) for count in (12, 40))
    for op, values, grad, size in ((gather_rows, nodes, rows, ()), (scatter_rows, rows, nodes, (12,))):
        sides = []
        for form in (op.kernel, op.plain):
            given = values.clone().requires_grad_()
            out = form(given, target, *size, csr)
            sides.append((out, *torch.autograd.grad(out, given, grad)))
        for actual, expected in zip(*sides, strict=True):
            close(actual, expected)


@needs_triton
@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("in_order", [False, True])
def test_the_kernel_of_grouped_sums_equals_adding_by_index(mean, in_order):
    from outland.ops.triton.rows import segment_sum

    generator = torch.Generator().manual_seed(0)
    group = torch.randint(7, (40,), generator=generator)
    group = group.sort().values if in_order else group
    group[group == 3] = 4 if in_order else 2  # an empty group
    rowptr, perm, _ = EdgeCSR.from_edges(group, group, 7)
    values = torch.randn(40, 20, generator=generator)
    expected = torch.zeros(7, 20).index_add(0, group, values)
    if mean:
        expected = expected / torch.bincount(group, minlength=7).clamp(min=1)[:, None]
    perm = None if in_order else perm.to(DEVICE)
    close(segment_sum(values.to(DEVICE), rowptr.to(DEVICE), perm, mean).cpu(), expected)


@needs_triton
@pytest.mark.parametrize("mean", [False, True])
def test_pooling_leaves_padding_out_forward_and_back(mean):
    sizes = torch.tensor([3, 0, 5, 1])
    batch = torch.arange(4).repeat_interleave(sizes)
    batch = torch.cat([batch, torch.full((4,), 4)]).to(DEVICE)  # four rows of padding
    ptr = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)]).to(DEVICE)
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(13, 140, generator=generator).to(DEVICE).requires_grad_()
    grad = torch.randn(4, 140, generator=generator).to(DEVICE)
    out = pool.kernel(values, Segments(batch, ptr, sizes.to(DEVICE), padded=True), mean)
    out.backward(grad)
    values_grad, values.grad = values.grad, None
    expected = torch.zeros(5, 140, device=DEVICE).index_add(0, batch, values)[:4]
    if mean:
        expected = expected / sizes.clamp(min=1)[:, None].to(DEVICE)
    expected.backward(grad)
    close(out, expected)
    close(values_grad, values.grad)


@needs_triton
@pytest.mark.parametrize("marked", [[True], [False], [True, False, True, True, False], [True] * 300 + [False] * 7])
def test_the_kernel_of_a_masked_mean_equals_the_plain_form(marked):
    mask, generator = torch.tensor(marked, device=DEVICE), torch.Generator().manual_seed(len(marked))
    values = torch.randn(len(mask), generator=generator).to(DEVICE)
    values[~mask] = torch.nan  # it is never read
    ours, plain = values.clone().requires_grad_(), values.clone().requires_grad_()
    mean, expected = masked_mean.kernel(ours, mask), masked_mean.plain(plain, mask)
    close(mean, expected)
    (3 * mean).backward()
    (3 * expected).backward()
    close(ours.grad, plain.grad)


def test_rows_that_are_not_marked_do_not_count():
    values = torch.tensor([[1.0, 2.0], [torch.nan, 9.0], [3.0, 6.0]])
    assert masked_mean(values, torch.tensor([True, False, True])).tolist() == [2.0, 4.0]
    assert masked_mean(values, torch.zeros(3, dtype=torch.bool)).tolist() == [0.0, 0.0]
    assert masked_mean(values[::2], None).tolist() == [2.0, 4.0]


@needs_triton
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (9, 5), (70, 600)])
@pytest.mark.parametrize("of", ["both", "rows", "weights"])
def test_the_kernel_of_scaled_rows_equals_the_plain_form(rows, width, of):
    generator = torch.Generator().manual_seed(rows)
    x, grad = (torch.randn(rows, width, generator=generator).to(DEVICE) for _ in range(2))
    weight = torch.rand(rows, generator=generator).to(DEVICE)
    sides = []
    for form in (scale_rows.kernel, scale_rows.plain):
        inputs = x.clone().requires_grad_(of != "weights"), weight.clone().requires_grad_(of != "rows")
        out = form(*inputs)
        sides.append((out, *torch.autograd.grad(out, [value for value in inputs if value.requires_grad], grad)))
    for actual, expected in zip(*sides, strict=True):
        close(actual, expected)


@needs_triton
@pytest.mark.parametrize(("rows", "width", "sizes"), [(1, 4, (3,)), (70, 70, (5, 6, 2)), (600, 20, (119, 4, 12))])
def test_the_kernel_of_embeddings_equals_the_plain_form(rows, width, sizes):
    generator = torch.Generator().manual_seed(0)
    values = torch.stack([torch.randint(size, (rows,), generator=generator) for size in sizes], 1).to(DEVICE)
    offsets = torch.tensor(sizes).cumsum(0).sub(torch.tensor(sizes)).to(DEVICE)
    table = torch.randn(sum(sizes), width, generator=generator).to(DEVICE)
    grad = torch.randn(rows, width, generator=generator).to(DEVICE)
    ours, plain = table.clone().requires_grad_(), table.clone().requires_grad_()
    for small in (values, values.to(torch.uint8)):
        out, expected = embedding_sum.kernel(ours, small, offsets), embedding_sum.plain(plain, values, offsets)
        close(out, expected)
    out.backward(grad)
    expected.backward(grad)
    close(ours.grad, plain.grad)


@needs_triton
def test_embeddings_are_in_the_precision_of_autocast():
    table, values = torch.randn(7, 20).to(DEVICE).requires_grad_(), torch.tensor([[0, 1], [3, 0], [3, 2]]).to(DEVICE)
    offsets = torch.tensor([0, 4]).to(DEVICE)
    with torch.autocast(DEVICE.type, torch.bfloat16):
        out = embedding_sum.kernel(table, values, offsets)
    assert out.dtype == torch.bfloat16
    close(out.float(), embedding_sum.plain(table, values, offsets), 2**-7)  # the interpreter cuts bits off
    out.backward(torch.ones_like(out))
    assert table.grad.dtype == torch.float32
    assert table.grad[:, 0].tolist() == [1, 0, 0, 2, 1, 1, 1]


def test_embeddings_are_summed_alike_with_and_without_gradients():
    generator = torch.Generator().manual_seed(1)
    table = torch.randn(30, 128, generator=generator)
    values, offsets = torch.randint(0, 10, (500, 3), generator=generator), torch.tensor([0, 10, 20])
    with torch.inference_mode():
        without = embedding_sum.plain(table, values, offsets)
    assert torch.equal(without, embedding_sum.plain(table, values, offsets))
