"""Ways to train a graph classifier, one file each."""

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from outland.errors import OutlandError, unknown
from outland.graphs import Schema
from outland.methods.base import (
    Augmented,
    GraphEmbeddings,
    Method,
    MethodSettings,
    NodeInputs,
    Phase,
    Progress,
    Schedule,
    Terms,
)
from outland.nn import BackboneSettings, initialize
from outland.settings import change

# name -> module:class, imported when asked for
METHODS = {
    "erm": "outland.methods.erm:ERM",
    "irm": "outland.methods.irm:IRM",
    "groupdro": "outland.methods.groupdro:GroupDRO",
    "vrex": "outland.methods.vrex:VREx",
    "dir": "outland.methods.dir:DIR",
    "cal": "outland.methods.cal:CAL",
    "gsat": "outland.methods.gsat:GSAT",
    "ood-gnn": "outland.methods.oodgnn:OODGNN",
    "stablegnn": "outland.methods.stablegnn:StableGNN",
    "ciga": "outland.methods.ciga:CIGA",
    "disc": "outland.methods.disc:DisC",
    "eerm": "outland.methods.eerm:EERM",
    "dropedge": "outland.methods.dropedge:DropEdge",
    "grea": "outland.methods.grea:GREA",
    "flag": "outland.methods.flag:FLAG",
    "m-mixup": "outland.methods.mmixup:MMixup",
    "g-mixup": "outland.methods.gmixup:GMixup",
    "aia": "outland.methods.aia:AIA",
    "prune": "outland.methods.prune:PrunE",
    "leci": "outland.methods.leci:LECI",
    "imold": "outland.methods.imold:IMoLD",
    "gala": "outland.methods.gala:GALA",
    "evidence": "outland.methods.evidence:Evidence",
}


def is_file(name: str) -> bool:
    """Whether a method is named by its file, as in `path/to/file.py:Class`."""
    return ".py:" in name


def resolve_method_file(name: str) -> str:
    """`file.py:Class` with the file's absolute path."""
    path, _, attribute = name.rpartition(":")
    return f"{Path(path).resolve()}:{attribute}"


def split_name(name: str) -> tuple[str, str]:
    """`method:preset` as two words; a method in a file of its own has no presets."""
    if is_file(name):
        return name, ""
    plain, _, preset = name.partition(":")
    return plain, preset


def _from_file(name: str) -> type[Method]:
    path, _, attribute = name.rpartition(":")
    if not Path(path).is_file():
        raise OutlandError(f"there is no file {path}")
    spec = spec_from_file_location(Path(path).stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        raise OutlandError(f"{path} cannot be imported: {type(problem).__name__}: {problem}") from problem
    classes = {name: cls for name, cls in vars(module).items() if isinstance(cls, type) and issubclass(cls, Method)}
    if attribute not in classes:
        raise unknown(f"method in {path}", attribute, [name for name, cls in classes.items() if cls is not Method])
    method = classes[attribute]
    for word in ("name", "family", "citation"):
        if not isinstance(getattr(method, word, None), str):
            raise OutlandError(f'{attribute} in {path} must have a {word}: write {word} = "..." in it')
    if method.phases is Method.phases and method.loss is Method.loss:
        raise OutlandError(f"{attribute} in {path} must have a loss(batch, progress), or phases()")
    return method


def find_method(name: str) -> type[Method]:
    """The method class of that name, or in that file; a preset after a colon is left aside."""
    if is_file(name):
        return _from_file(name)
    plain = name.partition(":")[0]
    if plain.endswith(".py"):
        raise OutlandError(f"say which class of {plain} it is: --method {plain}:CLASS")
    if plain not in METHODS:
        raise unknown("method", plain, METHODS)
    module, _, attribute = METHODS[plain].partition(":")
    method: type[Method] = getattr(import_module(module), attribute)
    return method


def method_settings(name: str, values: dict[str, Any]) -> MethodSettings:
    """Settings of `method` or `method:preset`, with single values changed."""
    method = find_method(name)
    preset = split_name(name)[1]
    if preset and not method.presets:
        raise OutlandError(f"{method.name} has no presets: write --method {method.name}")
    if preset and preset not in method.presets:
        raise unknown(f"preset of {method.name}", preset, method.presets)
    settings = method.presets[preset]() if preset else method.Settings()
    return change(settings, values, "method")


def build_method(name: str, schema: Schema, backbone: BackboneSettings, settings: MethodSettings) -> Method:
    """A new model with initial weights."""
    method = find_method(name)(schema, backbone, settings)
    is_default = type(method).forward is Method.forward and type(method).embed is Method.embed
    if is_default and not hasattr(method, "classifier"):
        raise OutlandError(f"{method.name} must have a `classifier`, or a forward(batch) that gives logits")
    initialize(method, backbone.init)
    return method


def rebuild_method(
    name: str, schema: Schema, backbone: BackboneSettings, settings: MethodSettings, weights: Mapping[str, Tensor]
) -> Method:
    """A model with these weights; a `ValueError` where their names or shapes are not the model's.

    It is built on the meta device first, so that a file cannot make it allocate more than the file holds itself.
    """
    with torch.device("meta"):
        expected = build_method(name, schema, backbone, settings).state_dict()
    if {key: tensor.shape for key, tensor in expected.items()} != {
        key: tensor.shape for key, tensor in weights.items()
    }:
        raise ValueError("its weights have other shapes than its settings say")
    method = build_method(name, schema, backbone, settings)
    method.load_state_dict(dict(weights))
    return method
