"""Templates, scripts and style sheets of the viewer's pages. All are part of installed packages, so that pages load
nothing from the internet."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import Response

from outrider.report import page as report_page
from outrider.report.digits import cells, number, percent
from outrider.report.safe_text import prose, visible
from outrider.view.words import WORDS

PAGES = Path(__file__).parent / "pages"
_KINDS = {"js": "text/javascript", "css": "text/css"}
_OF_REPORT = ("page.css", "theme.js", "plots.js", "sets.js")


def templates() -> Environment:
    """Return the templates of all pages. The templates escape every value."""
    environment = Environment(
        loader=FileSystemLoader(PAGES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"number": number, "percent": percent, "prose": prose, "visible": visible}
    environment.globals |= {"cells": cells, "WORDS": WORDS}
    return environment


def static_file(name: str) -> Response:
    """Return a script or style sheet by name; for any other name, return a response with status 404."""
    content = _content(name)
    if content is None:
        return Response("There is no such file.", 404, media_type="text/plain")
    headers = {"Cache-Control": "max-age=3600" if name == "plotly.js" else "no-cache"}
    return Response(content, media_type=_KINDS[name.rpartition(".")[2]], headers=headers)


@lru_cache
def _content(name: str) -> bytes | None:
    if name == "plotly.js":
        return files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    place = (report_page.PARTS if name in _OF_REPORT else PAGES) / name
    known = {path.name for path in PAGES.iterdir()} | set(_OF_REPORT)
    return place.read_bytes() if name in known and name.rpartition(".")[2] in _KINDS else None
