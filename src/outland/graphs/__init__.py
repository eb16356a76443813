"""A set of graphs as flat tensors, the batch every model reads, splits and environments, the cache on disk."""

from outland.graphs.batch import GraphBatch
from outland.graphs.batches import Batches, Layout
from outland.graphs.cache import Cache
from outland.graphs.packed import PackedGraphs
from outland.graphs.schema import Features, Metric, Schema, Task
from outland.graphs.splits import PARTS, Splits
from outland.ops import BatchShape
