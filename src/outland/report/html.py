"""Self-contained HTML pages from templates."""

from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def render_page(template: str, *, style: Sequence[str], script: Sequence[str], **values: Any) -> str:
    """A template of this folder with its values, which are escaped, and with CSS and JavaScript files inlined."""
    loader = PackageLoader("outland.report", "")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )

    def text(names: Sequence[str]) -> Markup:
        return Markup("\n").join(Markup(loader.get_source(environment, name)[0]) for name in names)

    return environment.get_template(template).render(style=text(style), script=text(script), **values)
