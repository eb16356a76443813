"""How the site is built: `make docs`, then open docs/_build/index.html."""

import inspect
from typing import Any

from outland import __version__
from outland.methods import METHODS, find_method
from outland.settings import describe

project = "outland"
author = "The outland authors"
copyright = f"2026, {author}"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "outland"
html_static_path = ["_static"]
html_css_files = ["site.css"]
suppress_warnings = ["myst.xref_missing"]  # the README also links to files that are not pages


def add_methods(app: Any, page: str, source: list[str]) -> None:
    """The page of methods lists every method that is registered, from its doc-strings."""
    if page != "methods":
        return
    for name in METHODS:
        method = find_method(name)
        about = ["```{eval-rst}", inspect.cleandoc(method.__doc__ or ""), "```"]
        rows = [
            f"| `{name}` | {value} | {text.replace('|', '&#124;')} |"
            for name, value, text in describe(method.Settings())
        ]
        table = ["| setting | default | what it is |", "|---|---|---|", *rows]
        presets = [", ".join(f"`{name}:{preset}`" for preset in method.presets)] if method.presets else []
        source[0] += "\n".join([f"\n## {name}\n", *about, "", *presets, "", *table, ""])


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_methods)
