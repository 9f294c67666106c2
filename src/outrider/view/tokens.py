"""Reads the tokens of a rollout, with each token's text, log-probability, entropy and advantage."""

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
        text: text that the token adds to the response; "" if the token ends inside a character.
        sampled: whether the policy sampled the token. If False, an environment wrote the token.
        logprob, entropy: values recorded at sampling, in nats; None if unknown.
        advantage: advantage of the token; None if no advantage was assigned, or if an environment wrote the token.
        analysed: result of `outrider analyse tokens` for this token; None if the rollout was not analysed.
        trained: importance ratio and clipping in the last update with this rollout; None if there was no such update,
            or if an environment wrote the token.
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
    """The result of `outrider analyse tokens` for one token, under the policy that was analysed.

    Attributes:
        alternative: text of the most likely other token under the analysed policy.
        logprob: log-probability of the alternative under the analysed policy, in nats.
        ratio: the token's probability under the analysed policy, divided by its probability at sampling; None if the
            analysis used another temperature.
    """

    alternative: str
    logprob: float
    ratio: float | None


def analysed_policy(run: OpenedRun) -> str:
    """Return the name of the policy in the run's token analysis; "" if there is no analysis."""
    try:
        about = json.loads((run.path / "analysis" / "tokens" / "about.json").read_bytes())
    except (OSError, ValueError):
        return ""
    return str(about.get("model", "")) if isinstance(about, dict) else ""


def analysed_tokens(
    run: OpenedRun, row: Row, token_ids: Sequence[int], tokenizer: Tokenizer
) -> dict[int, AnalysedToken]:
    """Return the results of ``outrider analyse tokens``, keyed by the token's index among the rollout's own tokens.

    The files of the analysis count tokens from the prompt's end, including a branch's prefix. The result is empty if
    the analysed tokens are not the rollout's tokens, for example because a resumed run has repeated the step.
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
    """Return a rollout's own tokens. ``advantage`` is the rollout's mean advantage, and ``clip`` contains the recipe's
    clip bounds."""
    ids = record["token_ids"]
    nothing: list[Any] = [None] * len(ids)
    sampled = record["trainable"] or [True] * len(ids)
    # null in files from earlier versions, or if every trainable token has the mean advantage
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
    """Return the text that each token adds. A character that spans several tokens belongs to the last of these tokens.

    Invalid bytes, for example from a randomly initialized policy, become U+FFFD.
    """
    stream, texts = DecodeStream(skip_special_tokens=False), list[str | None]()
    for id in ids:
        try:
            texts.append(stream.step(tokenizer, id))
        except Exception:  # noqa: BLE001 - the library raises a bare Exception: "invalid prefix"
            stream = DecodeStream(skip_special_tokens=False)
            texts.append("\ufffd")
    if texts and texts[-1] is None:
        texts[-1] = "\ufffd"
    return [text or "" for text in texts]


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value
