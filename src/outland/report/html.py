"""Templates into HTML pages that need no network and no other file."""

from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def rendered(template: str, *, style: Sequence[str], script: Sequence[str], **values: Any) -> str:
    """A page, as text; whatever is put into the template is escaped.

    Args:
        template: a file of this folder; `frame.html` is around it.
        style, script: files of this folder that the page carries in itself.
        values: what the template names.
    """
    loader = PackageLoader("outland.report", "")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)

    def text(names: Sequence[str]) -> Markup:
        return Markup("\n").join(Markup(loader.get_source(pages, name)[0]) for name in names)

    return pages.get_template(template).render(style=text(style), script=text(script), **values)
