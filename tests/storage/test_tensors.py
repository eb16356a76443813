import pytest
import torch
from safetensors.torch import load_file

from outland.storage.tensors import ChunkedTensor, write_tensors


def test_tensors_come_back_as_they_were(tmp_path):
    kinds = (
        torch.float64,
        torch.float32,
        torch.bfloat16,
        torch.float16,
        torch.int64,
        torch.int16,
        torch.uint8,
        torch.bool,
    )
    named = {str(kind): torch.arange(7).to(kind) for kind in kinds}
    named |= {"none": torch.zeros(0, 3), "number": torch.tensor(2.5), "across": torch.arange(6).reshape(2, 3).T}
    write_tensors(
        tmp_path / "t",
        {**named, "chunks": ChunkedTensor((2, 3), torch.int64, [torch.arange(4).byte(), torch.arange(2)])},
    )
    loaded = load_file(tmp_path / "t")
    assert loaded.pop("chunks").tolist() == [[0, 1, 2], [3, 0, 1]]
    assert loaded.keys() == named.keys()
    assert all(torch.equal(loaded[name], named[name]) and loaded[name].dtype == named[name].dtype for name in named)
    with pytest.raises(ValueError, match="the chunks of a tensor are not what its shape says"):
        write_tensors(tmp_path / "t", {"a": ChunkedTensor((3,), torch.int64, [torch.arange(2)])})
