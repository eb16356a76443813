import pytest
import torch
from torch.nn.functional import linear

from outland.methods.parts.edge_scorer import EdgeScorer
from tests.cases import SMALL
from tests.conftest import SETS
from tests.methods.cases import some


class TestEdgeScorer:
    @pytest.mark.parametrize("kind", SETS)
    def test_factored_scores_equal_a_loop_over_edges(self, kind):
        schema, batch = some(kind)
        scorer = EdgeScorer(SMALL, schema, hidden=12).double().eval()
        scores, features = scorer(batch)
        scores = scores.squeeze(1)
        assert torch.equal(features, scorer.encoder(batch))
        for index, (u, v) in enumerate(batch.edge_index.T.tolist()):
            ends = [(u, v), (v, u) if batch.reverse[index] != index else (u, v)]
            plain = [
                scorer.last(
                    linear(torch.cat([features[a], features[b]]), scorer.first.weight, scorer.first.bias).relu()
                ).item()
                for a, b in ends
            ]
            assert scores[index].item() == pytest.approx(sum(plain) / 2, abs=1e-12)
        assert torch.equal(scores, scores[batch.reverse])
