"""Ways to train a graph classifier, one file each."""

from importlib import import_module
from typing import Any

from outland.errors import OutlandError, unknown
from outland.graphs import Schema
from outland.methods.base import Method, MethodSettings, Phase, Progress, Schedule, Terms
from outland.nn import BackboneSettings, initialise
from outland.settings import change

# name -> module:class, imported when asked for
METHODS = {
    "erm": "outland.methods.erm:ERM",
    "irm": "outland.methods.irm:IRM",
    "groupdro": "outland.methods.groupdro:GroupDRO",
    "vrex": "outland.methods.vrex:VREx",
    "dropedge": "outland.methods.dropedge:DropEdge",
    "flag": "outland.methods.flag:FLAG",
    "m-mixup": "outland.methods.mmixup:MMixup",
    "aia": "outland.methods.aia:AIA",
}


def find_method(name: str) -> type[Method]:
    """The method class of that name; a preset after a colon is left aside."""
    plain = name.partition(":")[0]
    if plain not in METHODS:
        raise unknown("method", plain, METHODS)
    module, _, attribute = METHODS[plain].partition(":")
    method: type[Method] = getattr(import_module(module), attribute)
    return method


def method_settings(name: str, values: dict[str, Any]) -> MethodSettings:
    """Settings of `method` or `method:preset`, with single values changed."""
    method = find_method(name)
    preset = name.partition(":")[2]
    if preset and not method.presets:
        raise OutlandError(f"{method.name} has no presets: write --method {method.name}")
    if preset and preset not in method.presets:
        raise unknown(f"preset of {method.name}", preset, method.presets)
    settings = method.presets[preset]() if preset else method.Settings()
    return change(settings, values, "method")


def build_method(name: str, schema: Schema, backbone: BackboneSettings, settings: MethodSettings) -> Method:
    """A new, initialised model."""
    method = find_method(name)(schema, backbone, settings)
    initialise(method, backbone.init)
    return method


__all__ = [
    "METHODS",
    "Method",
    "MethodSettings",
    "Phase",
    "Progress",
    "Schedule",
    "Terms",
    "build_method",
    "find_method",
    "method_settings",
]
