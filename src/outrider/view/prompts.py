"""Reads the prompt of each problem from one of the problem's rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tokenizers import Tokenizer

from outrider.view.listing import texts_of
from outrider.view.messages import Message, messages_in, messages_of
from outrider.view.opened_run import OpenedRun

_PLACES = """
SELECT problem_id, file, row FROM seen WHERE problem_id IN (SELECT unnest(?))
QUALIFY row_number() OVER (PARTITION BY problem_id ORDER BY context <> 'plain', step, file, row) = 1
"""


class Prompt(NamedTuple):
    """A prompt and its question. The question is the last message, or the whole prompt if it has no messages."""

    text: str
    question: str


def prompts_of(run: OpenedRun, problems: Sequence[str], tokenizer: Tokenizer | None) -> dict[str, Prompt]:
    """Return prompts, keyed by problem id. If possible, the prompts have no added examples or hints. Unknown prompts
    are excluded."""
    places = run.rows(_PLACES, [list(problems)])
    if not run.has_tokens:
        texts = texts_of(run, places, ["prompt"])
        of = {place["problem_id"]: texts.get((place["file"], place["row"]), {}).get("prompt") for place in places}
        return {problem: _prompt(prompt, messages_in(prompt)) for problem, prompt in of.items() if prompt}
    if tokenizer is None or not places:
        return {}
    marks = ", ".join(["(?, ?)"] * len(places))
    files = sorted({place["file"] for place in places})
    records = run.rows(
        "SELECT filename, file_row_number, prompt_ids FROM "
        f"read_parquet([{', '.join('?' * len(files))}], filename = true, file_row_number = true) "
        f"WHERE (filename, file_row_number) IN ({marks})",
        [*files, *(part for place in places for part in (place["file"], place["row"]))],
    )
    ids = {(record["filename"], record["file_row_number"]): record["prompt_ids"] for record in records}
    asked = [ids[place["file"], place["row"]] for place in places]
    return {
        place["problem_id"]: _prompt(text, messages_of(tokenizer, of))
        for place, of, text in zip(places, asked, tokenizer.decode_batch(asked), strict=True)
    }


def _prompt(text: str, messages: Sequence[Message]) -> Prompt:
    return Prompt(text, messages[-1].text if messages else text)
