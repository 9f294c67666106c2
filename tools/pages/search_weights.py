"""The weight of each page in the site's search."""

from __future__ import annotations

from typing import Any

BOOSTS = {"Tutorials": 6.0, "How to": 6.0, "Reference": 3.0, "Background": 0.4, "Library": 0.03}
"""How much a word on a page counts in search, by section of the navigation; elsewhere 1."""
RARE = ("decisions/", "log.md", "changelog.md")
"""Pages that few readers look for."""
LEAST = 0.02


def weight(place: str, nav: list[Any]) -> dict[str, Any]:
    """What the theme reads under ``search``: pages that tell how come before records of decisions and the notebook.

    Copies of the repository's files are not searched; they would be half of the index.
    """
    if place.startswith("repository/"):
        return {"exclude": True}
    section = next((name for name, places in sections(nav).items() if place in places), "")
    return {"boost": LEAST if place.startswith(RARE) else BOOSTS.get(section, 1.0)}


def sections(nav: list[Any]) -> dict[str, list[str]]:
    """The pages below each title of the navigation.

    >>> sections([{"Home": "index.md"}, {"Tutorials": [{"First": "a.md"}, {"More": [{"Deep": "b.md"}]}]}])
    {'Home': ['index.md'], 'Tutorials': ['a.md', 'b.md']}
    """

    def below(item: Any) -> list[str]:
        if isinstance(item, str):
            return [item]
        parts = item.values() if isinstance(item, dict) else item
        return [place for part in parts for place in below(part)]

    return {title: below(item) for entry in nav for title, item in entry.items()}
