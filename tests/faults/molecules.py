"""Molecules that nobody has made: few characters, and rings without end."""

import random

C60 = (
    "c12c3c4c5c1c1c6c7c2c2c8c3c3c9c4c4c%10c5c5c1c1c6c6c%11c7c2c2c7c8c3c3c8c9c4c4c9c%10c5c5c1c1c6c6c%11c2c2c7c3c3c8c4c4c9"
    "c5c1c1c6c2c3c41"
)


def para_ring(count: int) -> str:
    """Cyclohexanes joined para to one large ring: it goes two ways around each, so that it is 2**count rings."""
    return "C91CCC(CC1)" + "C1CCC(CC1)" * (count - 2) + "C1CCC9CC1"


def polyphenyl(count: int) -> str:
    """A chain of benzene rings."""
    return "c1ccccc1" + "-c1ccc(cc1)" * (count - 1)


def cubic(atoms: int, seed: int = 0, symbol: str = "C") -> str:
    """Atoms in a ring, with bonds across between random ones: as many rings as carbon can be in."""
    order, generator = list(range(atoms)), random.Random(seed)
    while True:
        generator.shuffle(order)
        pairs = list(zip(order[::2], order[1::2], strict=True))
        near = [pair for pair in pairs if (pair[0] - pair[1]) % atoms in (1, atoms - 1)]
        if not near:
            break
    chords = {atom: f"%({10 + number})" for number, pair in enumerate(pairs) for atom in pair}
    last = "%(9999)"
    return "".join(f"{symbol}{last if atom in (0, atoms - 1) else ''}{chords[atom]}" for atom in range(atoms))


def woven(atoms: int, reach: int, seed: int = 0) -> str:
    """The same in few characters: bonds across reach so far only, and their numbers are used again."""
    generator, partner = random.Random(seed), dict[int, int]()
    for atom in range(atoms):
        free = [other for other in range(atom + 2, min(atom + reach, atoms)) if other not in partner]
        if atom not in partner and free:
            other = generator.choice(free)
            partner |= {atom: other, other: atom}
    numbers, given, text = list(range(10, 100)), dict[int, int](), ""
    for atom in range(atoms):
        text += "C1" if atom in (0, atoms - 1) else "C"
        if partner.get(atom, -1) > atom:
            given[atom] = numbers.pop(0)
            text += f"%{given[atom]}"
        elif atom in partner:
            numbers.insert(0, given[partner[atom]])
            text += f"%{numbers[0]}"
    return text


def complete(atoms: int) -> str:
    """Atoms each of which is bound to all others."""
    closures: list[list[str]] = [[] for _ in range(atoms)]
    number = 10
    for first in range(atoms):
        for second in range(first + 2, atoms):  # neighbours are bound by the chain
            closures[first].append(f"%({number})")
            closures[second].append(f"%({number})")
            number += 1
    return "".join(f"*{''.join(own)}" for own in closures)


def ladder(rungs: int) -> str:
    """Squares fused in a row."""
    there = "".join(f"C%({10 + rung})" for rung in range(rungs))
    return f"{there}CC{''.join(f'C%({10 + rung})' for rung in reversed(range(rungs)))}"


def spiro(count: int) -> str:
    """Triangles that share an atom with the next."""
    return "C" + "C1(CC1)" * count
