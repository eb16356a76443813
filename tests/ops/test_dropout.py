import torch

from outland.ops import DropoutSeeds


def test_no_two_layers_of_a_step_get_the_same_seed():
    class OnGPU(DropoutSeeds):
        def renew(self):
            self.drawn, self.taken = torch.randint(2**31, (1,), generator=self.generator), 0

    seeds = OnGPU(torch.Generator().manual_seed(0))
    first, second = seeds.take(), seeds.take()
    assert first[0] is second[0]
    assert first[1] != second[1]
    seeds.renew()
    assert seeds.take()[0].item() != first[0].item()
