"""Making a policy ready: the fastest path that computes what the model itself does, seen in numbers."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from transformers import PreTrainedModel

from outrider.errors import UserError
from outrider.model.attention import use_own, use_plans
from outrider.model.compute import ComputePath
from outrider.model.device import engine
from outrider.model.load import Policy, unused_context
from outrider.sample.fused import supports
from outrider.sample.self_check import SelfCheck, SelfCheckResult, loud

_WHAT = {
    "fused": "our decoder on fused weights",
    "packed": "its layers with our attention",
    "plain": "its own forward pass and cache, slower than our own",
}


def ready(policy: Policy, asked: str = "auto") -> tuple[Policy, str]:
    """The policy on the fastest path that computes what its model does, and a sentence about that path.

    Tried are fused, packed and plain, or the one that is asked for. The first whose sampler and learner both give the
    likelihoods of the model's own forward pass is taken (:class:`outrider.sample.self_check.SelfCheck`). With
    ``policy.check=false`` nothing is compared: the first path that the architecture seems to allow is taken, and if
    its likelihoods are not the model's, every ratio and every gradient is wrong without a sign of it.

    Raises:
        UserError: no path that was tried gives the model's likelihoods, or runs at all.

    >>> from outrider.model.tiny import tiny_policy
    >>> policy, sentence = ready(tiny_policy(seed=0))
    >>> policy.path.name, sentence.partition(";")[0]
    ('fused', 'Qwen2ForCausalLM on the fused path (our decoder on fused weights)')
    """
    model, failed = policy.model, list[str]()
    use_own(model)
    with loud(model):
        check = SelfCheck(policy) if policy.options.check else None
        for path in _candidates(policy, asked):
            try:
                (use_own if path.name == "plain" else use_plans)(model)
                found = check.compare(policy._replace(path=path)) if check else None
            except torch.OutOfMemoryError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a model's own code raises where it is called otherwise
                failed.append(f"{path} fails ({_first_line(error)})")
                continue
            if found is None or found.agrees:
                return policy._replace(path=path), _sentence(model, path, check, found, failed)
            failed.append(f"{path} is {found} apart")
    most = check.bound if check else 0.0
    raise UserError(
        f"{type(model).__name__} cannot be used here: no path gives the log-probabilities of its own forward pass to "
        f"within {most:g} ({'; '.join(failed)}). policy.check=false runs it all the same, and then what is sampled and "
        "what is trained may be two policies"
    )


def _candidates(policy: Policy, asked: str) -> Iterator[ComputePath]:
    supported = supports(policy.model, engine(policy.options.dtype).dtype)
    if asked == "fused" and not supported:
        raise UserError(f"sample.path: {type(policy.model).__name__} has no fused path; use auto, packed or plain")
    if asked in ("auto", "fused") and supported:
        yield ComputePath("fused")
    if asked in ("auto", "packed"):
        yield ComputePath("packed")
    if asked in ("auto", "plain"):
        yield ComputePath("plain")
        yield ComputePath("plain", left_pads=False)


def _sentence(
    model: PreTrainedModel, path: ComputePath, check: SelfCheck | None, found: SelfCheckResult | None, failed: list[str]
) -> str:
    told = [f"{type(model).__name__} on {path} ({_WHAT[path.name]})"]
    if check is None:
        told.append("its likelihoods were not checked, as policy.check=false asks")
    else:
        kind = "largest" if check.exact else "mean"
        told.append(f"{kind} difference of log-probabilities from its own forward pass {found}")
        told += [f"an attention window of {window:,} tokens was not looked beyond" for window in check.beyond]
    return "; ".join([*told, *failed, *filter(None, [unused_context(model)])])


def _first_line(error: Exception) -> str:
    text = str(error).strip().split("\n")[0].rstrip(".")
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"
