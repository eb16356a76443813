"""Damage to files, for tests of what reads them."""

from pathlib import Path

DAMAGES = ["flip", "cut", "remove"]


def damage(path: Path, kind: str) -> None:
    """Flip a bit in the middle of a file, cut it in half, or remove it."""
    content = bytearray(path.read_bytes())
    if kind == "remove":
        path.unlink()
    elif kind == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
