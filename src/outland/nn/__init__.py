"""Weighted message passing, the five backbones, the mask network and the heads."""

from outland.nn.backbones import BACKBONES, build_encoder
from outland.nn.base import Encoder
from outland.nn.closed_walks import ClosedWalks
from outland.nn.convs import CONVS
from outland.nn.descriptors import fit_descriptors
from outland.nn.layers import BatchNorm, Dropout, PairLinear, frozen_running_stats, synchronize_batch_norm
from outland.nn.masker import Mask, Masker
from outland.nn.network import GraphNet, Head, initialize
from outland.nn.readout import Readout
from outland.nn.settings import BackboneSettings
