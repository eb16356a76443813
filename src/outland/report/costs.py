"""What methods cost, as it was measured."""

import json
from importlib.resources import files


def method_costs() -> dict[str, float]:
    """Time of a training step relative to ERM's, by method, from the benchmark of speed on Motif."""
    costs: dict[str, float] = json.loads(files("outland.report").joinpath("method-costs.json").read_text())
    return costs
