"""Weighted message passing, the four backbones, the mask network and the heads."""

from outland.nn.convs import CONVS
from outland.nn.dropout import Dropout
from outland.nn.encoder import Encoder
from outland.nn.masker import Mask, Masker
from outland.nn.network import GraphNet, Head, initialize
from outland.nn.norm import BatchNorm, frozen_running_stats, synchronize_batch_norm
from outland.nn.pair import PairLinear
from outland.nn.settings import BackboneSettings
