import bz2
import tracemalloc

import pytest
import torch

from outland.storage import compression
from outland.storage.compression import compress, decompress


def test_tensors_come_back_bit_by_bit():
    tensors = {
        "real": torch.tensor([[0.1, -0.0], [float("nan"), 3e38]]),
        "half": torch.arange(7, dtype=torch.float16),
        "turned": torch.arange(6, dtype=torch.int16).reshape(2, 3).T,
        "truth": torch.tensor([True, False]),
        "none": torch.zeros(0, 3, dtype=torch.uint8),
    }
    streams, layout = compress(tensors)
    assert layout["turned"] == {"dtype": "I16", "shape": [3, 2]}
    again = decompress(streams, layout)
    for name, tensor in tensors.items():
        assert again[name].dtype == tensor.dtype
        assert again[name].shape == tensor.shape
        assert again[name].contiguous().view(torch.uint8).equal(tensor.contiguous().view(torch.uint8))


def test_edges_take_a_small_share_of_their_bytes():
    source, target = torch.ones(75, 75).triu().nonzero().to(torch.uint8).T.repeat(1, 20)
    streams, _ = compress({"edges": torch.stack([source, target])})
    assert len(streams["edges"]) * 20 < 2 * len(source)


@pytest.mark.parametrize(("shape", "cut"), [([4], 0), ([6], 0), ([5], 3)])
def test_a_stream_of_another_size_is_refused(shape, cut):
    streams, layout = compress({"a": torch.arange(5)})
    layout["a"]["shape"] = shape
    with pytest.raises(ValueError, match="a is not of the size it should have"):
        decompress({"a": streams["a"][: len(streams["a"]) - cut]}, layout)


def test_what_is_no_stream_is_refused():
    with pytest.raises(ValueError, match="a cannot be decompressed"):
        decompress({"a": torch.arange(9, dtype=torch.uint8)}, {"a": {"dtype": "I64", "shape": [3]}})


@pytest.mark.parametrize("shape", [[-1], [1 << 40], [1 << 32, 1 << 32], [0, 1 << 70], [-3, -3]])
def test_what_is_announced_is_bounded_before_it_is_decompressed(shape):
    bomb = torch.frombuffer(bytearray(bz2.compress(bytes(2**24))), dtype=torch.uint8)
    assert len(bomb) < 100
    tracemalloc.start()
    with pytest.raises(ValueError, match="a cannot have the shape"):
        decompress({"a": bomb}, {"a": {"dtype": "U8", "shape": shape}})
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_the_bound_is_that_of_all_tensors_together(monkeypatch):
    streams, layout = compress({"a": torch.zeros(10), "b": torch.zeros(11)})
    monkeypatch.setattr(compression, "MAX_BYTES", 84)
    assert decompress(streams, layout)["b"].equal(torch.zeros(11))
    monkeypatch.setattr(compression, "MAX_BYTES", 83)
    with pytest.raises(ValueError, match=r"b cannot have the shape \[11\]: all tensors may take 83 bytes"):
        decompress(streams, layout)


def test_a_tensor_for_which_there_is_no_memory_is_refused(monkeypatch):
    class Full:
        def decompress(self, *_):
            raise MemoryError

    monkeypatch.setattr(bz2, "BZ2Decompressor", Full)
    with pytest.raises(ValueError, match="a cannot be decompressed: it does not fit in memory"):
        decompress(*compress({"a": torch.arange(5)}))
