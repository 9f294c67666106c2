"""The section with a few groups shown in full, each with its prompt and its tree of rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from outrider.record import StopReason
from outrider.report.content import Example, ExampleNode, Observed, Section
from outrider.report.data import CUT, Place, RunData
from outrider.report.sections.seen import one, query

Member = dict[str, Any]  # one rollout as a row

_NODES = 16  # maximum number of rollouts shown per group
_LONGEST = 3000  # maximum number of characters of a text

_OBSERVED = " Text of an environment is tinted, in red where the call was an error."
_TEXT = (
    "Read rollouts to find the cause of a number. The groups were chosen by rule, one of each kind that occurs. A "
    "branch is listed below its parent; a mark in the parent's text shows the branching point."
)


class _Kind(NamedTuple):
    """A kind of group, with its title. ``which`` is the SQL condition that selects groups of this kind from the table
    ``members``. ``order`` is the SQL sort order; the first group is shown."""

    title: str
    which: str
    order: str


_KINDS = (
    _Kind("A branch that succeeded", "branches > 0", "branch_successes = 0, step DESC"),
    _Kind("Seeded with solved examples or a hint", "seeded > 0", "seeded_successes = 0, step DESC"),
    _Kind("Solved for the first time", "successes > 0 AND failed_before > 0", "failed_before DESC, step"),
    _Kind("One success", "successes = 1 AND verified > 1", "verified DESC, step DESC"),
    _Kind("Truncated at the length limit", "truncated > 0", "truncated DESC, step DESC"),
    _Kind("Verifier timeout or error", "failed_verdicts > 0", "failed_verdicts DESC, step DESC"),
    _Kind("No success", "kind = 'unsolved'", "n DESC, step DESC"),
)
# RANGE instead of ROWS, so that other groups of the same problem in the same step do not count as earlier
_MEMBERS = f"""
CREATE OR REPLACE TEMP TABLE members AS
SELECT groups.*, branches, branch_successes, seeded, seeded_successes, truncated, failed_verdicts,
    CASE WHEN coalesce(sum(successes) OVER before, 0) = 0 THEN coalesce(sum(verified) OVER before, 0) ELSE 0 END
        AS failed_before
FROM groups JOIN (
    SELECT step, group_id, count(parent) AS branches, count(parent) FILTER (success = 1) AS branch_successes,
        count(*) FILTER (context = 'seeded') AS seeded,
        count(*) FILTER (context = 'seeded' AND success = 1) AS seeded_successes,
        count(*) FILTER ({CUT}) AS truncated,
        count(*) FILTER (outcome IN ('timeout', 'error')) AS failed_verdicts
    FROM seen GROUP BY step, group_id
) USING (step, group_id)
WINDOW before AS (PARTITION BY problem_id ORDER BY step RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
"""


def section(run: RunData) -> Section | None:
    """Return a section with one example group for each kind of group that occurs. All examples are different groups.
    The result is None if there are no rollouts."""
    if not one(query(run, "SELECT count(*) AS n FROM groups"))["n"]:
        return None
    run.db.execute(_MEMBERS)
    titles: dict[str, str] = {}  # by step and group
    for kind in _KINDS:
        columns = run.query(
            f"SELECT step || ' ' || group_id AS place FROM members "
            f"WHERE {kind.which} AND NOT list_contains(?, step || ' ' || group_id) "
            f"ORDER BY {kind.order}, group_id LIMIT 1",
            [list(titles)],
        )
        titles |= dict.fromkeys(columns["place"].tolist(), kind.title)
    groups = _members(run, list(titles))
    prompts = run.prompts([group[0]["problem_id"] for group in groups.values() if group[0]["prompt"] is None])
    texts = run.beginnings(
        [at for group in groups.values() for member in group if (at := _place(member, _by_id(group)))]
    )
    told = run.observed([(int(member["step"]), member["id"]) for group in groups.values() for member in group])
    examples = [_example(title, groups[place], prompts, texts, told) for place, title in titles.items()]
    return Section("examples", "Rollouts to read", _TEXT + (_OBSERVED if told else ""), examples=examples)


def _members(run: RunData, places: list[str]) -> dict[str, list[Member]]:
    """Return the rollouts of several groups, reading all texts in one pass. A place is a step and a group id, separated
    by a space."""
    columns = query(
        run,
        "SELECT step || ' ' || group_id AS place, group_id || '/' || member AS id, step, member, parent, branch_at, "
        "problem_id, prompt, stage, context, tokens, turns, outcome, reward, advantage, stop, "
        "coalesce(length(text), 0) AS characters, "
        f"coalesce(left(text, {_LONGEST}), '(the dump has no text)') AS text "
        "FROM with_text WHERE step || ' ' || group_id IN (SELECT unnest(?)) ORDER BY step, group_id, member",
        [places],
    )
    groups: dict[str, list[Member]] = {place: [] for place in places}
    for row in zip(*(column.tolist() for column in columns.values()), strict=True):
        groups[row[0]].append(dict(zip(columns, row, strict=True)))
    return groups


def _example(
    title: str,
    members: list[Member],
    prompts: Mapping[str, str],
    beginnings: Mapping[Place, str],
    observed: Mapping[tuple[int, str], list[Observed]],
) -> Example:
    by_id = _by_id(members)
    shown = _chosen(members, by_id)
    problem = members[0]["problem_id"]
    prompt = members[0]["prompt"] or prompts.get(problem, "")
    more = f", {len(shown)} of {len(members)} rollouts" if len(shown) < len(members) else ""
    nodes = [
        _node(member, by_id, beginnings, observed.get((int(member["step"]), member["id"]), [])) for member in shown
    ]
    step = int(members[0]["step"])
    return Example(f"{title} (step {step}, {problem}{more})", prompt, nodes, problem, step)


def _chosen(members: list[Member], by_id: Mapping[str, Member]) -> list[Member]:
    """Return at most ``_NODES`` rollouts of a group, ancestors included, with a similar number of each outcome. Parents
    come before branches, and every parent of a returned rollout is returned too."""
    seen: dict[str | None, int] = {}
    turns = []
    for member in members:
        turn = seen[member["outcome"]] = seen.get(member["outcome"], -1) + 1
        turns.append((turn, member["member"], member))
    kept: dict[str, Member] = {}
    for _, _, member in sorted(turns, key=lambda item: item[:2]):
        line = [m for m in _ancestry(member, by_id) if m["id"] not in kept]
        if len(kept) + len(line) <= _NODES:
            kept |= {m["id"]: m for m in line}
    return sorted(kept.values(), key=lambda m: (len(_ancestry(m, by_id)), m["member"]))


def _ancestry(member: Member, by_id: Mapping[str, Member]) -> list[Member]:
    """Return a rollout and its ancestors, nearest first; the list ends at a missing parent or a cycle."""
    line = [member]
    # damaged files may have cycles of parents
    while (parent := by_id.get(line[-1]["parent"] or "")) is not None and parent not in line:
        line.append(parent)
    return line


def _by_id(members: list[Member]) -> dict[str, Member]:
    return {member["id"]: member for member in members}


def _place(member: Member, by_id: Mapping[str, Member]) -> Place | None:
    """Return where a rollout branches off its parent; None for a rollout that starts at the prompt.

    The result has the parent's step, the parent's id, and the number of the parent's own tokens before the branch.
    Own tokens exclude the prefix that the parent itself copied from another rollout. If the branch starts within this
    prefix, the number of own tokens is 0.
    """
    parent = by_id.get(member["parent"] or "")
    if parent is None:
        return None
    return int(parent["step"]), parent["id"], max(0, int(member["branch_at"]) - int(parent["branch_at"]))


def _cut(text: str, beginning: str | None) -> int | None:
    r"""Return the length of ``beginning``, the decoded first tokens of a text; None if the text does not start with it.

    If the last token ends with only some bytes of a character, these bytes are decoded as U+FFFD and are not counted.

    >>> _cut("a€b", "a\ufffd"), _cut("a€b", "a€"), _cut("a€b", "b"), _cut("abc", None)
    (1, 2, None, None)
    """
    whole = None if beginning is None else beginning.rstrip("\ufffd")
    return len(whole) if whole is not None and text.startswith(whole) else None


def _node(
    member: Member, by_id: Mapping[str, Member], beginnings: Mapping[Place, str], observed: list[Observed]
) -> ExampleNode:
    parent, place = by_id.get(member["parent"] or ""), _place(member, by_id)
    words = [f"{member['member']}", member["stage"], "seeded" if member["context"] == "seeded" else ""]
    words += [f"{member['tokens']:.0f} tokens" if _is(member["tokens"]) else ""]
    words += [f"{member['turns']:.0f} turns" if _is(member["turns"]) and member["turns"] > 1 else ""]
    errors = sum(one.error for one in observed)
    words += [f"{errors} {'error' if errors == 1 else 'errors'}" if errors else ""]
    words += [f"reward {member['reward']:.3g}" if _is(member["reward"]) else ""]
    words += [f"advantage {member['advantage']:.2g}" if _is(member["advantage"]) else ""]
    words += ["truncated" if member["stop"] and StopReason(member["stop"]).truncates else ""]
    cut = int(member["characters"]) - _LONGEST
    return ExampleNode(
        id=member["id"],
        parent=parent["id"] if parent else None,
        label=" · ".join(word for word in words if word),
        outcome=member["outcome"] or "",
        text=member["text"] + (f"… (+{cut:,} characters)" if cut > 0 else ""),
        at=place[2] if place else 0,
        cut=_cut(parent["text"], beginnings.get(place)) if parent and place else None,
        observed=[one._replace(end=min(one.end, _LONGEST)) for one in observed if one.begin < min(one.end, _LONGEST)],
    )


def _is(number: float | None) -> bool:
    return number is not None and number == number
