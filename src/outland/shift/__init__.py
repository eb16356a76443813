"""Distribution shift between two sets of graphs, and diversity of augmentations."""

from outland.shift.augmented import augmented, originals, training_mask
from outland.shift.diversity import bernoulli_entropy, factorised_entropy, joint_entropy
from outland.shift.integral import Comparison, Vectors, compare, covariate_shift
from outland.shift.measure import measure_shift
from outland.shift.moments import Diversity, Moments, fresh_draws, train_moments
from outland.shift.radius import radius_study
from outland.shift.result import Estimate, ShiftResult
from outland.shift.settings import ShiftSettings
from outland.shift.weighted import WeightedGraphs
