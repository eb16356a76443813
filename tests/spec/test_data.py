"""The data of a run."""

from outland.spec import RunSpec, load_splits


def test_a_limit_takes_so_many_graphs_a_part(motif, cache):
    whole = load_splits(RunSpec.make("motif", "erm", domain="base"), cache=cache)
    assert whole.checksum() == motif.checksum()
    limited = load_splits(RunSpec.from_words("motif", "erm", ["data.limit=50"], domain="base"), cache=cache)
    assert {name: len(index) for name, index in limited.parts.items()} == dict.fromkeys(motif.parts, 50)
    again = load_splits(RunSpec.from_words("motif", "aia", ["data.limit=50"], domain="base"), cache=cache)
    assert again.checksum() == limited.checksum()
