"""Losses and their gradients beside those of verl and TRL."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from compare import TOLERANCE, WIDTH, Comparison, largest
from outrider.objective import KL_ESTIMATORS, Mask, Truncate
from outrider.objective.correction import correct
from outrider.objective.kl import log_ratio_of
from outrider.objective.options import ObjectiveOptions
from outrider.objective.policy_loss import PolicyLoss
from outrider.objective.tokens import TokenBatch
from outrider.record.row import WeightedRow


class Scored(NamedTuple):
    """Log-probabilities, advantages and a mask, all ``[B, T]``."""

    old: Tensor
    new: Tensor
    advantages: Tensor
    mask: Tensor
    entropies: Tensor
    ref: Tensor

    @staticmethod
    def of(seed: int, per_row: bool = True, shift: float | None = None) -> Scored:
        rng = np.random.default_rng(seed)
        shape = (14, WIDTH)
        mask = np.arange(WIDTH) < rng.integers(1, WIDTH + 1, 14)[:, None]
        old = -rng.exponential(1.0, shape)
        new = old + (rng.normal(0, 0.4, shape) if shift is None else shift)
        advantages = np.repeat(rng.normal(size=(14, 1)), WIDTH, 1) if per_row else rng.normal(size=shape)
        values = (old, new, advantages, mask, rng.exponential(1.0, shape), new + rng.normal(0, 0.3, shape))
        return Scored(*(torch.tensor(np.asarray(v, np.float64)) for v in values))

    def moved(self, seed: int, reach: float) -> Scored:
        """With half of the tokens anywhere within ``reach`` of the sampler's log-probabilities and the reference's."""
        rng = np.random.default_rng([seed, 1])
        to_new, to_ref = (torch.tensor(rng.uniform(-reach, reach, self.old.shape)) for _ in range(2))
        far_new, far_ref = (torch.tensor(rng.random(self.old.shape) < 0.5) for _ in range(2))
        new = torch.where(far_new, self.old + to_new, self.new)
        return self._replace(new=new, ref=new + torch.where(far_ref, to_ref, self.ref - self.new))


def rows_of(data: Scored) -> list[WeightedRow]:
    return [
        WeightedRow(
            context_ids=np.zeros(1, np.int32),
            token_ids=np.zeros(WIDTH, np.int32),
            old_logprobs_N=data.old[i].numpy(),
            advantages_N=data.advantages[i].numpy(),
            trainable_N=data.mask[i].numpy() > 0,
            entropies_N=data.entropies[i].numpy(),
        )
        for i in range(len(data.old))
    ]


def ours(objective: dict[str, Any], data: Scored) -> tuple[float, Tensor]:
    """Loss and its gradient by the log-probabilities, as the learner takes them."""
    policy_loss = PolicyLoss(ObjectiveOptions(**objective), max_tokens=WIDTH)
    new = data.new.clone().requires_grad_()
    tokens = TokenBatch.of(policy_loss.prepare(rows_of(data)), like=new)
    reference = data.ref.reshape(-1) if policy_loss.needs.reference else None
    value, _ = policy_loss(tokens, new.reshape(-1), data.entropies.reshape(-1), reference)
    [gradient] = torch.autograd.grad(value, new)
    return float(value.detach()), gradient


def by_verl(mode: str, data: Scored, aggregate: str, **options: Any) -> tuple[float, Tensor]:
    from verl.trainer.ppo import core_algos
    from verl.workers.config import ActorConfig
    from verl.workers.config.actor import PolicyLossConfig

    selection = {k: options.pop(k) for k in list(options) if k.startswith(("clip_cov", "kl_cov", "ppo_kl"))}
    config = ActorConfig(
        strategy="fsdp",
        rollout_n=2,
        ppo_micro_batch_size_per_gpu=1,
        policy_loss=PolicyLossConfig(loss_mode=mode, **selection),
        **options,
    )
    new = data.new.clone().requires_grad_()
    loss, _ = core_algos.get_policy_loss_fn(mode)(data.old, new, data.advantages, data.mask, aggregate, config)
    [gradient] = torch.autograd.grad(loss, new)
    return float(loss.detach()), gradient


def by_trl(data: Scored, **options: Any) -> tuple[float, Tensor]:
    """TRL's loss is a method; it gets a trainer that has only what the method reads, and no second process."""
    from trl import GRPOTrainer

    new = data.new.clone().requires_grad_()
    accelerator = SimpleNamespace(
        num_processes=1,
        gather=lambda x: x,
        reduce=lambda x, reduction: x,
        pad_across_processes=lambda x, dim, pad_index: x,
    )
    args = {"delta": None, "use_bias_correction_kl": False, "sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.05}
    args |= {"steps_per_generation": 1} | {k: options.pop(k) for k in list(options) if k in args}
    trainer = SimpleNamespace(
        args=SimpleNamespace(**args),
        accelerator=accelerator,
        model=SimpleNamespace(training=True),
        aux_loss_enabled=False,
        off_policy_mask_threshold=None,
        use_vllm=False,
        current_gradient_accumulation_steps=1,
        max_completion_length=WIDTH,
        _entropy_bonus_enabled=False,
        _metrics=defaultdict(lambda: defaultdict(list)),
        _get_per_token_logps_and_entropies=lambda *_, **__: (new, data.entropies, None),
        get_high_entropy_mask=lambda e, m, t: GRPOTrainer.get_high_entropy_mask(trainer, e, m, t),
        **{
            "loss_type": "grpo",
            "importance_sampling_level": "token",
            "epsilon_low": 0.2,
            "epsilon_high": 0.28,
            "beta": 0.0,
            "top_entropy_quantile": 1.0,
            **options,
        },
    )
    prompt = torch.zeros(len(data.old), 1, dtype=torch.long)
    inputs = {"prompt_ids": prompt, "prompt_mask": prompt, "completion_ids": data.mask.long()}
    inputs |= {"completion_mask": data.mask, "advantages": data.advantages, "old_per_token_logps": data.old}
    inputs |= {"ref_per_token_logps": data.ref, "num_items_in_batch": data.mask.sum()}
    loss = GRPOTrainer._compute_loss(trainer, None, inputs)
    [gradient] = torch.autograd.grad(loss, new)
    return float(loss.detach()), gradient


Theirs = Callable[[Scored], tuple[float, Tensor]]


class Losses(NamedTuple):
    """Loss and gradient, or without ``value`` the gradient alone, over batches drawn with ``drawn``."""

    theirs: Theirs
    objective: dict[str, Any]
    value: bool
    drawn: dict[str, Any]

    def __call__(self) -> tuple[float, float]:
        worst = max(self.difference(Scored.of(seed, **self.drawn)) for seed in range(3))
        return worst, worst

    def difference(self, data: Scored) -> float:
        (their_value, their_gradient), (our_value, our_gradient) = self.theirs(data), ours(self.objective, data)
        worst = largest(their_gradient, our_gradient)
        return max(worst, abs(their_value - our_value)) if self.value else worst


def losses(theirs: Theirs, objective: dict[str, Any], value: bool = True, **drawn: Any) -> Losses:
    return Losses(theirs, objective, value, drawn)


def verl(mode: str, aggregate: str = "token-mean", **options: Any) -> Theirs:
    return lambda data: by_verl(mode, data, aggregate, **options)


def trl(**options: Any) -> Theirs:
    return lambda data: by_trl(data, **dict(options))


RANGE = {"clip_ratio_low": 0.2, "clip_ratio_high": 0.28}
CLIP = {"clip": [0.2, 0.28]}
DUAL = {"clip": {"low": 0.2, "high": 0.28, "dual": 3.0}}
PER_SEQUENCE = {"clip": {"low": 0.2, "high": 0.28, "ratio": "sequence"}}
PER_SEQUENCE_TOKEN = {"clip": {"low": 0.2, "high": 0.28, "ratio": "sequence_token"}}
EVERY = {"share": 1.0, "low": 0.3, "high": 2.0}


def weighted_kl() -> tuple[float, float]:
    """TRL weighs each token's k3 by its ratio; on-policy the ratio is 1, but it has a gradient."""
    data = Scored.of(0, shift=0.0)
    with_kl, plain = by_trl(data, beta=0.1, use_bias_correction_kl=True), by_trl(data, beta=0.1)
    value, gradient = ours({"surrogate": CLIP, "aggregate": "sequence_mean", "kl": 0.1}, data)
    raw = max(abs(with_kl[0] - value), largest(with_kl[1], gradient))
    d = data.ref - data.new
    rows = data.mask.sum(1, keepdim=True) * len(data.mask)
    extra = 0.1 * (d.exp() - d - 1) * data.mask / rows  # of the ratio, whose gradient on-policy is 1
    assert largest(plain[1], gradient) <= TOLERANCE
    return raw, largest(with_kl[1] - extra, gradient)


def estimators() -> tuple[float, float]:
    worst = max(kl_difference(name, Scored.of(0)) for name in KL_ESTIMATORS)
    return worst, worst


def kl_difference(name: str, data: Scored, most: float = math.inf) -> float:
    """Values and gradients of an estimator beside verl's; ours bounded by ``most`` first."""
    from verl.trainer.ppo.core_algos import kl_penalty_forward

    found = []
    for of in (
        lambda new: kl_penalty_forward(new, data.ref, {"k1": "kl", "k2": "mse", "k3": "low_var_kl"}[name]),
        lambda new: KL_ESTIMATORS[name]().value(log_ratio_of(data.ref, new, data.mask > 0)[1]).clamp(-most, most),
    ):
        new = data.new.clone().requires_grad_()
        values = of(new) * data.mask
        [gradient] = torch.autograd.grad(values.sum(), new)
        found.append((values.detach(), gradient))
    return max(largest(a, b) for a, b in zip(*found, strict=True))


def corrections() -> tuple[float, float]:
    """Importance weights of a learner ("new") over a sampler ("old"), of tokens and of responses."""
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights

    data, worst = Scored.of(0), 0.0
    for level in ("token", "sequence"):
        for options, threshold in ((Truncate(level=level, cap=1.5), 1.5), (Mask(level=level, low=0.5), "0.5_2.0")):
            corrected, gauges = correct(options, rows_of(data), list(data.new.numpy()))
            assert 0 < gauges["weight_clamped"] < 1
            theirs, _ = compute_rollout_correction_weights(data.new - data.old, data.mask, level, threshold)
            worst = max(worst, largest(theirs, np.stack([row.importance_N for row in corrected])))
    return worst, worst


LOSSES = [
    Comparison(
        "verl `vanilla`, `token-mean`",
        "`clip` with `dual: 3`, `token_mean`",
        losses(verl("vanilla", **RANGE), {"surrogate": DUAL}, per_row=False),
    ),
    Comparison(
        "verl `vanilla`, `seq-mean-token-mean`",
        "`clip` with `dual: 3`, `sequence_mean`",
        losses(verl("vanilla", "seq-mean-token-mean", **RANGE), {"surrogate": DUAL, "aggregate": "sequence_mean"}),
    ),
    Comparison(
        "verl `vanilla`, `seq-mean-token-sum-norm`",
        "`clip` with `dual: 3`, `constant`",
        losses(verl("vanilla", "seq-mean-token-sum-norm", **RANGE), {"surrogate": DUAL, "aggregate": "constant"}),
    ),
    Comparison(
        "verl `gspo`, `seq-mean-token-mean`",
        "`clip` with `ratio: sequence_token`, `sequence_mean`",
        losses(
            verl("gspo", "seq-mean-token-mean", **RANGE),
            {"surrogate": PER_SEQUENCE_TOKEN, "aggregate": "sequence_mean"},
            per_row=False,
        ),
    ),
    Comparison(
        "verl `sapo`",
        "`sapo`, `sequence_mean`",
        losses(verl("sapo"), {"surrogate": "sapo", "aggregate": "sequence_mean"}),
    ),
    Comparison(
        "verl `geo_mean`",
        "`gmpo`, `sequence_mean`",
        losses(
            verl("geo_mean", clip_ratio_low=0.4, clip_ratio_high=0.4),
            {"surrogate": "gmpo", "aggregate": "sequence_mean"},
        ),
    ),
    Comparison(
        "verl `cispo`",
        "`cispo: [0.2, 0.28]`, `token_mean`",
        losses(verl("cispo", **RANGE), {"surrogate": {"cispo": [0.2, 0.28]}}, per_row=False),
    ),
    Comparison(
        "verl `gpg`, on-policy, gradient",
        "`unclipped`, `token_mean`",
        losses(verl("gpg"), {"surrogate": "unclipped"}, value=False, shift=0.0),
    ),
    Comparison(
        "verl `kl_cov`, log-probabilities shifted by 0.1",
        "`unclipped`, `select: kl_cov`",
        losses(
            verl("kl_cov", kl_cov_ratio=0.1, ppo_kl_coef=0.5),
            {"surrogate": "unclipped", "select": {"kl_cov": {"share": 0.1, "coef": 0.5}}},
            shift=0.1,
        ),
        "if tokens move by different amounts, the selections differ: verl uses covariances of the current "
        "log-probabilities over a micro-batch; Outrider uses the sampling policy's over the optimizer batch",
    ),
    Comparison(
        "verl `clip_cov`, every token of the range, log-probabilities shifted by 0.1",
        "`clip`, `select: clip_cov`",
        losses(
            verl("clip_cov", clip_cov_ratio=1.0, clip_cov_lb=0.3, clip_cov_ub=2.0, **RANGE),
            {"surrogate": CLIP, "select": {"clip_cov": EVERY}},
            shift=0.1,
        ),
        "with a smaller share both select at random: verl with the global generator for every micro-batch, without "
        "tokens whose ratio is clipped; Outrider with a seed from the token's identity",
    ),
    Comparison("verl `kl_penalty`: `kl`, `mse`, `low_var_kl`", "`k1`, `k2`, `k3`", estimators),
    Comparison(
        "verl `compute_rollout_correction_weights`, with one threshold and with two",
        "`correction`: `truncate` and `mask`, `level: token` and `sequence`",
        corrections,
    ),
    Comparison(
        "TRL `grpo`",
        "`clip`, `sequence_mean`",
        losses(trl(), {"surrogate": CLIP, "aggregate": "sequence_mean"}, per_row=False),
    ),
    Comparison("TRL `bnpo`", "`clip`, `token_mean`", losses(trl(loss_type="bnpo"), {"surrogate": CLIP})),
    Comparison(
        "TRL `dapo`, one micro-batch", "`clip`, `token_mean`", losses(trl(loss_type="dapo"), {"surrogate": CLIP})
    ),
    Comparison(
        "TRL `dr_grpo`",
        "`clip`, `constant`",
        losses(trl(loss_type="dr_grpo"), {"surrogate": CLIP, "aggregate": "constant"}),
    ),
    Comparison(
        "TRL `grpo`, `delta=3`",
        "`clip` with `dual: 3`, `sequence_mean`",
        losses(trl(delta=3.0), {"surrogate": DUAL, "aggregate": "sequence_mean"}, per_row=False),
    ),
    Comparison(
        'TRL `grpo`, `importance_sampling_level="sequence"`',
        "`clip` with `ratio: sequence`, `sequence_mean`",
        losses(trl(importance_sampling_level="sequence"), {"surrogate": PER_SEQUENCE, "aggregate": "sequence_mean"}),
    ),
    Comparison(
        "TRL `cispo`, `epsilon_high=4`",
        "`cispo: [null, 3.0]`, `token_mean`",
        losses(trl(loss_type="cispo", epsilon_high=4.0), {"surrogate": {"cispo": [None, 3.0]}}),
        "in TRL the option bounds the weight; in Outrider and the paper, the weight's distance from 1",
    ),
    Comparison(
        "TRL `sapo`",
        "`sapo`, `sequence_mean`",
        losses(trl(loss_type="sapo"), {"surrogate": "sapo", "aggregate": "sequence_mean"}, per_row=False),
    ),
    Comparison(
        "TRL `grpo`, `beta=0.1`, `use_bias_correction_kl=False`",
        "`kl: 0.1` (k3)",
        losses(trl(beta=0.1), {"surrogate": CLIP, "aggregate": "sequence_mean", "kl": 0.1}),
    ),
    Comparison(
        "TRL `grpo`, `beta=0.1`, on-policy",
        "`kl: 0.1` (k3)",
        weighted_kl,
        "TRL's default multiplies the KL by the ratio, which has a gradient of its own; Outrider's k3 has "
        "no such weight",
    ),
]
