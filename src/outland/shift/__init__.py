"""How far data moves, and how much augmentation varies."""

from outland.shift.diversity import bernoulli_entropy, factorised_entropy, joint_entropy

__all__ = ["bernoulli_entropy", "factorised_entropy", "joint_entropy"]
