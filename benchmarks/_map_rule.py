"""Whom the map recommends in a setting, by steps 5 to 12 of its rule (``map.py``)."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping

from _map_read import Results, as_grpo, largest, read

BETTER = ("better", "next")
"""Benches in which all have values that may be better for GRPO than those that the screen found."""
CONTROLS = ("control", *BETTER)
"""Benches in which GRPO has other values than the screen found."""


def recommendations(results: Mapping[str, Results]) -> dict[str, tuple[str, Results]]:
    """By setting whom the map recommends there and the bench that says so; without those where it is nobody.

    Of the designs that came later one that is ahead at both ends, by the last bench where there is one, or of the
    comparison one that is at any end. Who was compared is judged there alone, also where it runs beside later designs,
    and who was run again is judged no more by what came before. Whom a control refuses is not recommended; who was
    compared at GRPO's better values is recommended with these; where the next was refused, too, nobody is.

    Args:
        results: those of a setting in the order in which they were run.
    """
    told: dict[str, tuple[str, Results]] = {}
    for setting in dict.fromkeys(found["setting"] for found in results.values()):
        benches = [found for found in results.values() if found["setting"] == setting]
        *later, first = reversed([found for found in benches if found["part"] not in CONTROLS])
        refused = {name for found in benches if found["part"] in CONTROLS for name in behind(found)}
        judged = measured(first) | refused
        for found in later:
            if name := ahead(found, all, judged):
                told[setting] = (name, found)
                break
            if found["part"] == "again":
                judged |= measured(found)
        else:
            if name := ahead(first, any, refused):
                told[setting] = (name, first)
        for found in benches:
            name = told.get(setting, ("", found))[0]
            if found["part"] in BETTER and name in measured(found):
                told[setting] = (name, found)
            if found["part"] == "next" and behind(found):
                told.pop(setting, None)
    return told


def at_equal_values(
    told: Mapping[str, tuple[str, Results]], results: Mapping[str, Results]
) -> dict[str, tuple[str, Results]]:
    """The same recipes, each with the last bench of those that look at it most often along the way in which GRPO has
    its rate and its updates; with the bench that recommends it where there is none."""
    shown = {}
    for setting, (name, bench) in told.items():
        benches = [each for each in results.values() if each["setting"] == setting and name in measured(each)]
        alike = [each for each in reversed(benches) if as_grpo(name, [each])]
        shown[setting] = (name, max(alike, key=lambda each: len(each["recipes"][name]["points"]), default=bench))
    return shown


def judges(results: Mapping[str, Results]) -> dict[str, dict[str, list[Results]]]:
    """By setting and recipe, GRPO aside, the benches that it is judged by: the comparison, or those that came after.

    Who was run again is judged by that bench and by what came after it. Controls are nobody's: GRPO is another there.
    """
    told: dict[str, dict[str, list[Results]]] = {}
    for found in results.values():
        recipes = told.setdefault(found["setting"], {})
        for name in found["recipes"] if found["part"] not in CONTROLS else ():
            before = recipes.get(name, [])
            if name != "grpo" and not any(each["part"] == "compared" for each in before):
                recipes[name] = [found] if found["part"] == "again" else [*before, found]
    return told


def measured(found: Results) -> set[str]:
    """The recipes that a bench has measured on the untouched problems."""
    return {*found["untouched"]["recipes"]} if found["untouched"] else set()


def behind(found: Results) -> set[str]:
    """Whom a bench shows behind GRPO at an end of pass@k, or ahead at none; nobody where it has not measured them."""
    return {name for name in measured(found) - {"grpo"} if not ahead(found, any, measured(found) - {name})}


def ahead(found: Results, ends: Callable[[Iterable[bool]], bool], judged: Container[str] = ()) -> str:
    """Who is ahead of GRPO at any or at all ends of pass@k and behind at none, the farthest; "" where there is none.

    By intervals on the untouched problems; a recipe without a value there is left out, and so is one that was judged
    elsewhere. Nobody for a bench that has not measured them.
    """
    if found["untouched"] is None:
        return ""
    names = ("pass@1", largest(found))
    changes = {
        name: [read(recipe["minus_base"][end]) for end in names]
        for name, recipe in found["untouched"]["recipes"].items()
        if name != "grpo" and name not in judged
    }
    sums = {
        name: sum(each.value for each in both)
        for name, both in changes.items()
        if all(each.high >= 0 for each in both) and ends(each.low > 0 for each in both)
    }
    return max(sums, key=sums.__getitem__, default="")
