"""Counts of what was survived and tried, for the last lines of `make faults`; a disk that can be filled."""

import subprocess
from collections import Counter

import pytest

WORDS = {"kills": "kills survived", "inputs": "hostile inputs tried", "faults": "other faults survived"}


@pytest.fixture
def tally(request):
    """Count something: `tally("kills", "training", 8)`."""

    def count(what: str, kind: str, number: int = 1) -> None:
        request.node.user_properties.append((what, [kind, number]))

    return count


@pytest.fixture
def small_disk(tmp_path):
    """A file system of any size, kept in memory."""
    place = tmp_path / "disk"
    place.mkdir()

    def size(kilobytes: int, again: bool = False):
        words = ["mount", "-t", "tmpfs", "-o", f"{'remount,' if again else ''}size={kilobytes}k", "tmpfs", str(place)]
        if subprocess.run(words, capture_output=True, check=False).returncode:
            pytest.skip("a file system cannot be mounted here: that needs to be root")
        return place

    yield size
    subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)


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
