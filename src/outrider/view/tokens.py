"""The tokens of a rollout, each with its text and its numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from outrider.view.opened_run import OpenedRun, Row
from outrider.view.trained import ClipBounds, TrainedToken, trained_tokens


class ShownToken(NamedTuple):
    """A token of a response.

    Attributes:
        text: what it adds to the text; empty where a character is not complete yet.
        sampled: False where an environment said it.
        logprob, entropy: as recorded when it was drawn, in nats; None where not known.
        advantage: None where none was assigned, and where an environment said the token.
        analysed: None where `outrider analyse tokens` has not been run on the rollout.
        trained: None where the rollout was in no update, and where an environment said the token.
    """

    text: str
    id: int
    sampled: bool
    logprob: float | None
    entropy: float | None
    advantage: float | None = None
    analysed: AnalysedToken | None = None
    trained: TrainedToken | None = None


class AnalysedToken(NamedTuple):
    """A token under the policy of an analysis.

    Attributes:
        alternative, logprob: the text of the most likely other token, and its log-probability.
        ratio: of the token's probability to that with which it was sampled; None where the analysis is of another
            temperature.
    """

    alternative: str
    logprob: float
    ratio: float | None


def analysed_policy(run: OpenedRun) -> str:
    """The policy of the analysis of tokens, as it was named; empty where there is none."""
    try:
        about = json.loads((run.path / "analysis" / "tokens" / "about.json").read_bytes())
    except (OSError, ValueError):
        return ""
    return str(about.get("model", "")) if isinstance(about, dict) else ""


def analysed_tokens(
    run: OpenedRun, row: Row, token_ids: Sequence[int], tokenizer: Tokenizer
) -> dict[int, AnalysedToken]:
    """By own token, what ``outrider analyse tokens`` has found; its positions count the prefix too.

    Nothing where it was of another text, as of a step that a resume has done again.
    """
    parts = run.path / "analysis" / "tokens" / "parts"
    files = sorted(str(file) for file in parts.glob("*.parquet"))
    if not files:
        return {}
    rows = run.rows(
        "SELECT position - ? AS at, token_id, alternative_id, alternative_logprob, exp(logprob - sampled_logprob) "
        "AS ratio FROM read_parquet(?) WHERE split = ? AND step = ? AND group_id = ? AND member = ?",
        [row["branch_at"], files, row["split"], row["step"], row["group_id"], row["member"]],
    )
    own = [one for one in rows if one["at"] >= 0]
    if any(one["at"] >= len(token_ids) or token_ids[one["at"]] != one["token_id"] for one in own):
        return {}
    return {
        one["at"]: AnalysedToken(
            tokenizer.decode([one["alternative_id"]], skip_special_tokens=False),
            one["alternative_logprob"],
            _finite(one["ratio"]),
        )
        for one in own
    }


def tokens_of(
    tokenizer: Tokenizer,
    record: Row,
    advantage: float | None,
    analysed: Mapping[int, AnalysedToken],
    clip: ClipBounds | None = None,
) -> list[ShownToken]:
    """The own tokens of a row of a rollout file; ``advantage`` is their mean, ``clip`` that of the run's recipe."""
    ids = record["token_ids"]
    nothing: list[Any] = [None] * len(ids)
    sampled = record["trainable"] or [True] * len(ids)
    # null where each trainable token has the mean, and where an earlier version has written the file
    shares = record.get("advantages") or [advantage] * len(ids)
    trained = trained_tokens(record.get("log_ratios"), sampled, shares, clip)
    columns = (sampled, record["logprobs"] or nothing, record["entropies"] or nothing, shares, trained)
    numbers = zip(texts_of(tokenizer, ids), ids, *columns, strict=True)
    return [
        ShownToken(
            text,
            id,
            was_sampled,
            _finite(logprob),
            _finite(entropy),
            _finite(share) if was_sampled else None,
            analysed.get(at),
            of_training,
        )
        for at, (text, id, was_sampled, logprob, entropy, share, of_training) in enumerate(numbers)
    ]


def texts_of(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """What each token adds to the text; a character of several tokens is the last one's.

    Bytes that are no text, as a random policy draws them, are U+FFFD.
    """
    stream, texts = DecodeStream(skip_special_tokens=False), list[str | None]()
    for id in ids:
        try:
            texts.append(stream.step(tokenizer, id))
        except Exception:  # noqa: BLE001 - the library's own, of no type: an "invalid prefix"
            stream = DecodeStream(skip_special_tokens=False)
            texts.append("\ufffd")
    if texts and texts[-1] is None:
        texts[-1] = "\ufffd"
    return [text or "" for text in texts]


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value
