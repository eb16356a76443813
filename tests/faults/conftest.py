"""Counts of what was survived and tried, for the last lines of `make faults`."""

from collections import Counter

import pytest

WORDS = {"kills": "kills survived", "inputs": "hostile inputs tried", "faults": "other faults survived"}


@pytest.fixture
def tally(request):
    """Count something: `tally("kills", "training", 8)`."""

    def count(what: str, kind: str, number: int = 1) -> None:
        request.node.user_properties.append((what, [kind, number]))

    return count


def pytest_terminal_summary(terminalreporter):
    counts: dict[str, Counter[str]] = {what: Counter() for what in WORDS}
    for report in terminalreporter.stats.get("passed", []):
        for what, value in report.user_properties:
            if report.when == "call" and what in counts:
                counts[what][value[0]] += value[1]
    for what, kinds in counts.items():
        if kinds:
            listed = ", ".join(f"{kind} {number:,}" for kind, number in sorted(kinds.items()))
            terminalreporter.write_line(f"{WORDS[what]}: {sum(kinds.values()):,} ({listed})")
