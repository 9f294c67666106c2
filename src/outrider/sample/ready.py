"""Selects a policy's compute path: the fastest path whose results agree with the model's own forward pass."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from transformers import PreTrainedModel

from outrider.errors import UserError
from outrider.model.attention import use_own, use_plans
from outrider.model.compute import ComputePath
from outrider.model.device import placement
from outrider.model.gguf_file import precision_of
from outrider.model.load import Policy, unused_context
from outrider.sample.fused import supports
from outrider.sample.self_check import SelfCheck, SelfCheckResult, amplified_logits

_WHAT = {
    "fused": "our decoder on fused weights",
    "packed": "its layers with our attention",
    "plain": "its own forward pass and cache, slower than our own",
}


def ready(policy: Policy, choice: str = "auto", sampled: bool = True) -> tuple[Policy, str]:
    """Select the fastest compute path that gives the same log-probabilities as the model. Return the policy with this
    path, and a message that describes the path.

    If ``choice`` is "auto", three paths are tried in this order: fused (Outrider's decoder on fused weights), packed
    (the model's layers with Outrider's attention), and plain (the model's own forward pass). Otherwise, only ``choice``
    is tried. The policy gets the first path whose sampler and learner both reproduce the log-probabilities of the
    model's own forward pass (:class:`outrider.sample.self_check.SelfCheck`). With ``policy.check=false``,
    log-probabilities are not compared, and the policy gets the first path that seems to support its architecture. If
    the log-probabilities of this path differ from those of the model, all ratios and gradients are wrong, but no error
    is raised.

    Args:
        sampled: whether this model is used for sampling. If False, the fused path is skipped, because fused weights are
            used only for sampling, and checking them needs as much memory as the model.

    Raises:
        UserError: every path that was tried fails, or gives log-probabilities that differ from the model's.

    >>> from outrider.model.tiny import tiny_policy
    >>> policy, sentence = ready(tiny_policy(seed=0))
    >>> policy.path.name, sentence.partition(";")[0]
    ('fused', 'Qwen2ForCausalLM on the fused path (our decoder on fused weights)')
    """
    model, failed = policy.model, list[str]()
    # the check computes its reference values with the model's own attention
    use_own(model)
    with amplified_logits(model):
        check = SelfCheck(policy) if policy.options.check else None
        for path in _candidates(policy, choice, sampled):
            try:
                on_path(policy, path)
                result = check.compare(policy._replace(path=path)) if check else None
            # out of memory: the path itself may still be correct
            except torch.OutOfMemoryError:
                raise
            except Exception as error:  # noqa: BLE001 - a model's own code may raise anything
                failed.append(f"{path} fails ({_first_line(error)})")
                continue
            if result is None or result.agrees:
                if check and sampled:
                    path = path._replace(keeps=check.continues(policy._replace(path=path)))
                return policy._replace(path=path), _sentence(model, path, check, result, failed)
            failed.append(f"{path} differs by {result}")
    most = check.bound if check else 0.0
    raise UserError(
        f"{type(model).__name__} cannot be used here: no path reproduces the log-probabilities of its own forward pass "
        f"to within {most:g} ({'; '.join(failed)}). policy.check=false runs the model anyway, but then sampler and "
        "learner may compute two different policies"
    )


def on_path(policy: Policy, path: ComputePath) -> Policy:
    """Return the policy with the compute path ``path``. Whether the path is correct is not checked."""
    (use_own if path.name == "plain" else use_plans)(policy.model)
    return policy._replace(path=path)


def _candidates(policy: Policy, choice: str, sampled: bool) -> Iterator[ComputePath]:
    if not sampled and choice == "fused":
        choice = "auto"
    supported = sampled and supports(policy.model, placement(policy.options.dtype).dtype)
    if choice == "fused" and not supported:
        raise UserError(f"sample.path: {type(policy.model).__name__} has no fused path; use auto, packed or plain")
    if choice in ("auto", "fused") and supported:
        yield ComputePath("fused")
    if choice in ("auto", "packed"):
        yield ComputePath("packed")
    if choice in ("auto", "plain"):
        yield ComputePath("plain")
        yield ComputePath("plain", left_pads=False)


def _sentence(
    model: PreTrainedModel,
    path: ComputePath,
    check: SelfCheck | None,
    result: SelfCheckResult | None,
    failed: list[str],
) -> str:
    parts = [f"{type(model).__name__} on {path} ({_WHAT[path.name]})"]
    if check is None:
        parts.append("its log-probabilities were not checked (policy.check=false)")
    else:
        kind = "largest" if check.exact else "mean"
        parts.append(f"{kind} difference of log-probabilities from its own forward pass {result}")
        if not path.keeps:
            parts.append("the KV cache is not reused between turns, since reuse changes the results")
        parts += [f"an attention window of {window:,} tokens was too long to test" for window in check.beyond]
    about = [unused_context(model), precision_of(str(model.config._name_or_path))]
    return "; ".join([*parts, *failed, *filter(None, about)])


def _first_line(error: Exception) -> str:
    text = str(error).strip().split("\n")[0].rstrip(".")
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"
