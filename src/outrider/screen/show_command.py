"""Rollouts as a table to read: responses with their verdicts, rewards and advantages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from tokenizers import Tokenizer

from outrider.errors import UserError, nearest
from outrider.record import Outcome, Rollout
from outrider.runs.folder import RunFolder

_LONGEST = 400
_VERDICT = 28
_COLOURS = {
    Outcome.CORRECT: "green",
    Outcome.INCORRECT: "red",
    Outcome.UNPARSEABLE: "yellow",
    Outcome.TIMEOUT: "magenta",
    Outcome.ERROR: "magenta",
}


def show_command(run: Path, step: int | None, n: int, name: str) -> int:
    """Print ``n`` rollouts of one step (None: the last) that a run drew for ``name``, and return 0.

    Problems are shown by their prompts once the run has exported its model, and its tokenizer with it; before, by id.

    Raises:
        UserError: there is no run, or it has no such rollouts.
    """
    folder = RunFolder.existing(run)
    steps = folder.rollouts.steps(name)
    if not steps:
        names = folder.rollouts.names()
        raise UserError(f"{run} holds no {name} rollouts ({nearest(name, names) if names else 'nor any others'})")
    step = steps[-1] if step is None else step
    if step not in steps:
        close = min(steps, key=lambda known: abs(known - step))
        raise UserError(f"{run} holds no {name} rollouts of step {step}; the nearest is step {close}")
    rollouts = folder.rollouts.read(step, name)
    file = folder.model / "tokenizer.json"
    # the tokenizer's own file, since transformers takes seconds to import
    tokenizer = Tokenizer.from_file(str(file)) if file.is_file() else None
    table = rollout_table(rollouts, n, tokenizer)
    table.title = f"{name}, step {step}: {table.title}"
    Console().print(table)
    return 0


def rollout_table(rollouts: Sequence[Rollout], n: int, tokenizer: Tokenizer | None = None) -> Table:
    """At most ``n`` rollouts, evenly spread over those given, as a table for ``rich.print``.

    The prefix of a branch is dim, its own tokens are not; «…» is what an environment said. Long texts are cut, saying
    by how much; characters that would command the terminal are shown as escapes. No reward is a dash, no advantage is
    left out, NaN is ``NaN``.

    Args:
        rollouts: in any order; none make an empty table.
        n: how many rows at most.
        tokenizer: of the run; without it a problem is shown by its id.
    """
    shown = [rollouts[i * len(rollouts) // n] for i in range(n)] if len(rollouts) > n else rollouts
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_lines=True, expand=True)
    table.title = f"{len(shown)} of {len(rollouts)} rollouts"
    by_id = {rollout.id: rollout for rollout in rollouts}
    if any(rollout.observations for rollout in rollouts):
        table.title += "; «…» was observed"
    table.add_column("problem", ratio=2, overflow="fold")
    table.add_column("response", ratio=5, overflow="fold")
    table.add_column("verdict", width=_VERDICT, overflow="fold")
    for r in shown:
        problem = _visible(r.problem_id if tokenizer is None else tokenizer.decode(r.prompt_ids.tolist()))
        prefix, own = _marked(r.prefix_text, _before(r, by_id)), _marked(r.text, _own(r))
        response = Text.assemble((_visible(prefix), "dim"), _visible(own))
        table.add_row(Text(problem), response, _verdict(r))
    return table


def _marked(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """A text with marks around what was observed.

    >>> _marked("1+2=3", [(2, 4)])
    '1+«2=»3'
    """
    last, parts = 0, []
    for begin, end in spans:
        parts += [text[last:begin], f"«{text[begin:end]}»"]
        last = end
    return "".join(parts) + text[last:]


def _own(rollout: Rollout) -> list[tuple[int, int]]:
    """What was observed, in its own text."""
    return [(one.begin, one.end) for one in rollout.observations if one.tokens]


def _before(rollout: Rollout, by_id: Mapping[str, Rollout]) -> list[tuple[int, int]]:
    """What was observed, in the text of its prefix: the rollouts that it continues know."""
    parent = by_id.get(rollout.parent or "")
    if parent is None:
        return []
    at = len(parent.prefix_text)
    spans = [*_before(parent, by_id), *((at + begin, at + end) for begin, end in _own(parent))]
    return [span for span in spans if span[1] <= len(rollout.prefix_text)]


def _verdict(rollout: Rollout) -> Text:
    text = Text()
    if rollout.verdict is None:
        text.append("no verdict", "dim")
    else:
        text.append(rollout.verdict.outcome.value, _COLOURS[rollout.verdict.outcome])
    text.append(f"\nreward {_number(rollout.reward)}")
    if rollout.advantage is not None:
        text.append(f", advantage {_number(rollout.advantage)}")
    text.append(f"\n{len(rollout.token_ids)} tokens, {rollout.stop.value}")
    if rollout.verdict is not None and rollout.verdict.detail:
        text.append("\n" + _visible(rollout.verdict.detail), "dim")
    if rollout.replayed:
        text.append(f"\nreplayed: {_visible(rollout.context.exemplars[0])}", "dim")
    if rollout.unused:
        text.append(f"\nunused: {_visible(rollout.unused)}", "dim")
    return text


def _number(value: float | None) -> str:
    return "—" if value is None else "NaN" if value != value else f"{value:.3g}"


def _visible(text: str) -> str:
    r"""A text that is safe to print, cut where it is long.

    >>> _visible("a\x1b[2Jb\nc")
    'a\\x1b[2Jb\nc'
    >>> _visible("x" * 1000)[-24:]
    'xxxxx… (+600 characters)'
    """
    cut = text[:_LONGEST]
    safe = "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in cut)
    return safe if len(text) <= _LONGEST else f"{safe}… (+{len(text) - _LONGEST:,} characters)"
