"""What a measured shift means, in plain words."""

Triple = tuple[float, float, float]  # a value, its null, and the null's spread over trials
SAME = "The two sets are the same graphs: there is no shift between them, and what is measured is chance."


def verdict(covariate: Triple, accuracy: Triple, correlation: Triple | None = None, few: str = "") -> str:
    """Which shift there is; `few` tells why little can be said, as in `with 40 graphs a side`, where that is so."""
    parts = [_covariate(covariate, accuracy, few)]
    if correlation is not None:
        parts.append(_correlation(correlation, covariate))
    return " ".join(parts)


def _beyond(triple: Triple, least: float) -> bool:
    """Whether a value is above its null by more than chance and by more than matters."""
    value, null, spread = triple
    return value - null > max(least, 3 * spread)


def _covariate(covariate: Triple, accuracy: Triple, few: str) -> str:
    value, null, _ = covariate
    told = (
        f"a small network tells {accuracy[0]:.0%} of unseen graphs apart, and {accuracy[1]:.0%} where sides are random"
    )
    value_of, chance, spread = accuracy
    moved, apart = _beyond(covariate, 0.02), _beyond((value_of, max(chance, 0.5), spread), 0.03)
    if moved and apart:
        size = "a small" if value < 0.1 else "a moderate" if value < 0.4 else "a large"
        rough = f" {few.capitalize()} that share is rough." if few else ""
        return (
            f"There is {size} covariate shift: about {value:.0%} of the graphs lie where the other set has next to "
            f"none ({told}).{rough}"
        )
    if moved:
        enough = f"{few.capitalize()} there is not enough to tell" if few else "The two measures do not agree on"
        return f"{enough} whether there is a covariate shift: GCS is {value:.2f}, and {null:.2f} by chance, but {told}."
    if apart:
        limit = f", as far as can be told {few}" if few else ""
        return (
            "The two sets differ, but each reaches where the other is: some kinds of graphs are more frequent in one "
            f"than in the other, and to the network's eye hardly any lie beyond the other's reach{limit} ({told})."
        )
    unseen = f" {few.capitalize()} a small one could not be seen." if few else ""
    return f"No covariate shift is to be seen: {told}.{unseen}"


def _correlation(correlation: Triple, covariate: Triple) -> str:
    value, null, _ = correlation
    if covariate[0] > 0.5:
        return "The sets meet too little for a correlation shift to be judged."
    if _beyond(correlation, 0.05):
        return (
            f"There is a correlation shift: where both sets are, the same graphs have other labels "
            f"({value:.2f}, against {null:.2f} by chance)."
        )
    return f"No correlation shift can be told from chance ({value:.2f}, against {null:.2f} by chance)."
