"""The list of what is shipped: every recipe with its paper, every setting."""

from __future__ import annotations

from outrider.config import list_recipes, list_settings


def page() -> str:
    """Names link to the files."""
    recipes = [
        f"| [`{one.name}`](../../src/outrider/recipes/{one.name}.yaml) | {one.paper} | {one.summary} |"
        for one in list_recipes()
    ]
    settings = [
        f"| [`{one.name}`](../../src/outrider/settings/{one.name}.yaml) | {one.summary} | {one.recommended} |"
        for one in list_settings()
    ]
    return "\n".join(
        [
            "# Every recipe, every setting\n",
            "Any recipe can be tried in any setting: `outrider train RECIPE --setting SETTING`.\n",
            f"## {len(recipes)} recipes\n\n| recipe | paper | what it does |\n|---|---|---|",
            *recipes,
            f"\n## {len(settings)} settings\n\n| setting | what it is | recommended (none: empty) |\n|---|---|---|",
            *settings,
            "",
        ]
    )
