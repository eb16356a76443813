"""Self-contained HTML pages from templates."""

import re
from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

# Control characters, and the surrogates that stand for bytes that are not UTF-8: neither can be in a page.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def render_page(template: str, *, style: Sequence[str], script: Sequence[str], **values: Any) -> str:
    """A template of this folder with its values, which are escaped, and with CSS and JavaScript files inlined.

    Characters that no page can have are replaced by U+FFFD.
    """
    loader = PackageLoader("outland.report", "")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )

    def text(names: Sequence[str]) -> Markup:
        return Markup("\n").join(Markup(loader.get_source(environment, name)[0]) for name in names)

    page = environment.get_template(template).render(style=text(style), script=text(script), **values)
    return _UNPRINTABLE.sub("\ufffd", page)
