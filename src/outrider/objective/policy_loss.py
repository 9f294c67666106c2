"""The objective: computes the weights of an optimizer batch's rows, and then the loss of each micro-batch.

Unless stated otherwise, each diagnostic is a mean over all tokens that a step's updates train on:

=======================  ========================  ================================================================
name                     present with              meaning
=======================  ========================  ================================================================
``entropy``              always                    entropy of the policy, in nats
``kl_old``               always                    k3 estimate of the KL from the sampling policy
``log_ratio_bounded``    always                    share of log ratios beyond ±20, which are bounded
``clip_low, clip_high``  clip, gmpo; cispo         share of tokens whose gradient (cispo: weight) is clipped
``clip_dual``            clip with ``dual``        share of tokens whose gradient the dual clip removes
``gate``                 sapo                      share of the gradient that passes the gate
``selected``             forking, clip_cov         share of tokens that keep their policy gradient
``penalised``            kl_cov                    share of tokens with a penalty
``forking``              simko                     share of tokens with high entropy within their response
``penalty``              kl_cov                    the penalty, averaged over all tokens
``importance``           correction                importance weight of the policy term
``sampler_kl_*``,        correction                metrics of weights and mismatch in a step; see
``weight_*``                                       :mod:`outrider.objective.correction`
``kl_reference``         kl                        k3 estimate of the KL to the reference, penalised or not
``entropy_coefficient``  an entropy bonus          coefficient of the bonus in this step
``reference_resets``     kl with ``reset_every``   1 in a step after which the reference was reset, else absent
=======================  ========================  ================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from outrider.objective import K3
from outrider.objective.correction import Correction, correct, weigh
from outrider.objective.entropy import EntropyBonus, mean_entropy
from outrider.objective.kl import log_ratio_of, moved
from outrider.objective.loss_needs import LossNeeds
from outrider.objective.options import ObjectiveOptions
from outrider.objective.ratio import TokenRatios
from outrider.objective.selection import Selected, selected
from outrider.objective.tokens import TokenBatch
from outrider.objective.weights import token_weights
from outrider.record.row import Logprobs, WeightedRow

_K3 = K3()  # the estimator of diagnostics in every recipe: never negative, so a mean over few tokens is meaningful


class PolicyLoss:
    r"""The loss of a micro-batch, a weighted sum over its tokens:

    .. math:: \sum_t w_t\, \big(-s_t\, v_t\, g_t + \beta\, b_t\, k_t + p_t\, |\log \rho_t| - \alpha H_t\big)

    The weight :math:`w` includes every denominator (:mod:`outrider.objective.weights`), :math:`g` is the surrogate's
    gain (:mod:`outrider.objective.surrogate`) and :math:`k` the KL to the reference (:mod:`outrider.objective.kl`).
    A token selection may set :math:`s` and :math:`p` (:mod:`outrider.objective.selection`), an off-policy correction
    :math:`v` (:mod:`outrider.objective.correction`) and an entropy bonus :math:`\alpha`
    (:mod:`outrider.objective.entropy`). With ``kl.mask_without_signal``, :math:`b` is 0 in groups whose advantages in
    the stream are all zero.

    Args:
        max_tokens: maximum response length in tokens, used in the loss's denominator by the aggregate ``constant``.
    """

    def __init__(self, options: ObjectiveOptions, max_tokens: int) -> None:
        self.options, self.max_tokens = options, max_tokens
        self.bonus = EntropyBonus(options.entropy)

    @property
    def needs(self) -> LossNeeds:
        kl, select = self.options.kl, self.options.select
        reference = kl.coef > 0
        # rows without advantage are trained by the KL term, or by an entropy bonus
        pulled = (reference and not kl.mask_without_signal) or self.bonus.active
        diagnostics = (
            *("tokens", "entropy", "kl_old", "log_ratio_bounded", *self.options.surrogate.diagnostics),
            *(("selected",) if select is not None and select.leaves_out else ()),
            *(("penalised", "penalty") if select is not None and select.penalises else ()),
            *(("importance",) if self.options.correction is not None else ()),
            *(("kl_reference",) if reference else ()),
        )
        all_rows = pulled and self.options.aggregate.denominator == "all"
        return LossNeeds(reference, kl.reset_every, all_rows, self.options.surrogate.reads_top, diagnostics)

    def begin(
        self, rows: Sequence[WeightedRow], logprobs: Logprobs, one_update: bool = False
    ) -> tuple[Sequence[WeightedRow], dict[str, float]]:
        """Prepare the rows of a step for training. Returns the prepared rows, and metrics. ``logprobs`` computes the
        learner's log-probabilities on demand."""
        gauges: dict[str, float] = {}
        correction = self.options.correction
        if correction is not None and not (one_update and self._corrects_in_pass(correction)):
            rows, gauges = correct(correction, rows, logprobs(rows))
        if self.options.entropy.target is not None:
            self.bonus.observe(mean_entropy(rows))
        return rows, gauges | ({"entropy_coefficient": self.bonus.coefficient} if self.bonus.active else {})

    def end(self, rows: Sequence[WeightedRow], logprobs: Sequence[NDArray[np.floating] | None]) -> dict[str, float]:
        correction = self.options.correction
        if correction is None or not self._corrects_in_pass(correction):
            return {}
        passed = [(row, new_N) for row, new_N in zip(rows, logprobs, strict=True) if new_N is not None]
        return correct(correction, [row for row, _ in passed], [new_N for _, new_N in passed])[1]

    def _corrects_in_pass(self, correction: Correction) -> bool:
        """Whether a step with one update computes the off-policy correction in the update's forward pass, without an
        extra pass."""
        # a selection reads the learner's old log-probabilities before the pass
        return correction.per_weight and self.options.select is None

    def prepare(self, rows: Sequence[WeightedRow]) -> list[WeightedRow]:
        """Return the rows with the attributes that depend on the whole optimizer batch, such as ``weight`` and
        ``trained``. The batch is split into micro-batches afterwards."""
        weights = token_weights(rows, self.options, self.max_tokens)
        # rows of weight 0 must not count in the thresholds of a selection
        weighed = [row for row, weight in zip(rows, weights, strict=True) if weight > 0]
        chosen_of = iter(selected(self.options.select, weighed))
        acts = self.options.kl.estimator.acts_on(rows)
        signal = [row.has_signal for row in rows]
        # a group's branches may form a separate stream, with separate advantages
        with_signal = {(row.group, row.stream) for row, has in zip(rows, signal, strict=True) if has}
        weighted = []
        for row, weight, has, acting in zip(rows, weights, signal, acts, strict=True):
            keeps_N, penalties_N = next(chosen_of) if weight > 0 else Selected()
            pulled = acting and (not self.options.kl.mask_without_signal or (row.group, row.stream) in with_signal)
            held = penalties_N is not None and bool(penalties_N.any())
            always = self.bonus.coefficient > 0 or (self.options.kl.coef > 0 and pulled)
            trained = bool(weight > 0 and (has or held or always))
            weighted.append(
                replace(
                    row, weight=float(weight), trained=trained, keeps_N=keeps_N, penalties_N=penalties_N, pulled=pulled
                )
            )
        return weighted

    def __call__(
        self,
        tokens: TokenBatch,
        logprobs_N: Tensor,
        entropies_N: Tensor | None,
        ref_logprobs_N: Tensor | None,
        top_NK: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss and the diagnostics. The diagnostics are sums over trainable tokens. The caller divides them
        by the number of trainable tokens, which is also returned, under the name ``tokens``.

        ``entropies_N``: None if the engine computes no entropies and the objective needs none. ``top_NK``:
        log-probabilities of the ``top`` likeliest tokens.
        """
        live = tokens.weights > 0
        if self.options.correction is not None and tokens.importance is None:
            tokens = _corrected(self.options.correction, tokens, logprobs_N.detach(), live)
        # bounded before exp: a token with almost no probability would overflow to infinity
        log_ratio, bounded = log_ratio_of(logprobs_N, tokens.old_logprobs, live)
        ratios = TokenRatios(bounded, logprobs_N, tokens.advantages, live, tokens.lengths, entropies_N, top_NK)
        gain, marks = self.options.surrogate.gain(ratios)
        sums = {
            "tokens": live.sum(),
            **({} if entropies_N is None else {"entropy": _sum(entropies_N, live)}),
            "kl_old": _sum(_K3.value(bounded.detach()), live),
            "log_ratio_bounded": ((log_ratio != bounded) & live).sum(),
            **{name: _sum(mark, live) for name, mark in marks.items()},
        }
        for name, factor in (("selected", tokens.keeps), ("importance", tokens.importance)):
            if factor is not None:
                gain = gain * factor
                sums[name] = _sum(factor, live)
        per_token = -gain
        if tokens.penalties is not None:
            penalty = tokens.penalties * moved(bounded, tokens.old_logprobs)
            # in addition to the policy term, so a penalised token is still trained
            per_token = per_token + penalty
            sums |= {"penalised": _sum(tokens.penalties > 0, live), "penalty": _sum(penalty, live)}
        if ref_logprobs_N is not None:
            _, difference = log_ratio_of(ref_logprobs_N, logprobs_N, live)
            kl = self.options.kl.coef * self.options.kl.estimator.value(difference)
            per_token = per_token + (kl if tokens.pulled is None else kl * tokens.pulled)
            sums["kl_reference"] = _sum(_K3.value(difference.detach()), live)
        if self.bonus.coefficient > 0:
            assert entropies_N is not None
            per_token = per_token - self.bonus.coefficient * entropies_N
        return (tokens.weights * per_token).sum(), {name: value.detach() for name, value in sums.items()}

    def state_dict(self) -> dict[str, float]:
        return self.bonus.state_dict()

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.bonus.load_state_dict(state)


class ImitationLoss:
    r"""The loss of supervised training: the mean of :math:`-\log \pi` over all trainable tokens of a batch."""

    needs = LossNeeds(all_rows=True, diagnostics=("tokens", "entropy", "surprise"))

    def begin(
        self, rows: Sequence[WeightedRow], logprobs: Logprobs, one_update: bool = False
    ) -> tuple[Sequence[WeightedRow], dict[str, float]]:
        return rows, {}

    def end(self, rows: Sequence[WeightedRow], logprobs: Sequence[NDArray[np.floating] | None]) -> dict[str, float]:
        return {}

    def prepare(self, rows: Sequence[WeightedRow]) -> list[WeightedRow]:
        tokens = sum(int(row.trainable_N.sum()) for row in rows)
        return [replace(row, weight=1 / tokens, trained=bool(row.trainable_N.any())) for row in rows] if tokens else []

    def __call__(
        self,
        tokens: TokenBatch,
        logprobs_N: Tensor,
        entropies_N: Tensor | None,
        ref_logprobs_N: Tensor | None,
        top_NK: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        live = tokens.weights > 0
        sums = {"tokens": live.sum(), "surprise": -_sum(logprobs_N, live)}
        if entropies_N is not None:
            sums["entropy"] = _sum(entropies_N, live)
        return -(tokens.weights * logprobs_N).sum(), {name: value.detach() for name, value in sums.items()}

    def state_dict(self) -> dict[str, float]:
        return {}

    def load_state_dict(self, state: dict[str, float]) -> None:
        return


def _corrected(correction: Correction, tokens: TokenBatch, old_N: Tensor, live_N: Tensor) -> TokenBatch:
    """Return the micro-batch with ``old_N`` as its old log-probabilities, and with the importance weights that follow
    from ``old_N``."""
    # corrections use NumPy; the copy from a GPU synchronises, but costs far less than an extra pass
    logs = (old_N - tokens.old_logprobs).double().cpu().numpy()
    live = live_N.cpu().numpy()
    ends = np.cumsum(tokens.lengths)[:-1]
    log_RN = [log_N[live_N] for log_N, live_N in zip(np.split(logs, ends), np.split(live, ends), strict=True)]
    importance_N = np.zeros(len(logs))
    weights_R = weigh(correction, log_RN).importance_R
    # a row's single weight applies to each of its tokens
    importance_N[live] = np.concatenate(
        [np.broadcast_to(part, len(log_N)) for part, log_N in zip(weights_R, log_RN, strict=True)]
    )
    return tokens._replace(old_logprobs=old_N, importance=torch.from_numpy(importance_N).to(old_N))


def _sum(values: Tensor, live: Tensor) -> Tensor:
    return torch.where(live, values, 0).sum()
