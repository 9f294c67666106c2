"""Writes the comparison as a page: ``PYTHONPATH=tests python -m compare docs/comparison.md``."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import torch

from compare import TOLERANCE
from compare.credit import ADVANTAGES
from compare.far import FAR, REACH
from compare.losses import LOSSES

NOT_COMPARED = """\
## Not compared

The following parts were not compared, in most cases because they have no counterpart in Outrider. In verl:

- `gae`, which needs a critic, and the optimal token baselines, which need sums over the vocabulary;
- `opo`, whose baseline is a mean weighted by length, and `gdpo`, which combines several rewards;
- the losses `dppo_tv`, `dppo_kl`, `dro` and `bypass_mode`;
- the values `abs`, `k1+` and `k3+` of the option `kl_penalty`. `k1+` and `k3+` estimate the KL divergence by k1
  and k3, but use the gradient of the estimator k2.

In TRL:

- the losses `luspo` and `vespo`, and the option `off_policy_mask_threshold`, which masks off-policy sequences;
- TRL's advantages, and its weights that correct for differences between vLLM and the trainer. The function that
  computes these advantages and weights also samples responses. According to TRL's code, the advantages equal those of
  `group_mean` with an epsilon of 1e-4. The weights equal those of Outrider's corrections `truncate` and `mask`, unless
  TRL's option for a minimum weight is set;
- `top_entropy_quantile`, which selects tokens whose entropy is above a quantile of all entropies. Outrider's `forking`
  selects a given number of tokens, so the two selections may differ by one token at the threshold.
"""


TABLES = (
    ("Advantages", "", ADVANTAGES),
    (
        "Losses",
        "For this table, the tokens' log-ratios have a magnitude of about 0.4. In the table [*Far apart*](#far-apart), "
        f"their magnitude is up to {REACH:.0f}.\n",
        LOSSES,
    ),
    (
        "Far apart",
        f"This table compares the losses when half of the tokens have random log-ratios between -{REACH:.0f} and "
        f"{REACH:.0f}.\n",
        FAR,
    ),
)


def page() -> str:
    """The table as Markdown."""
    lines = [
        "# Outrider compared with verl and TRL",
        "",
        "This page compares Outrider's advantages and losses with those of verl and TRL, and gives the reason for "
        "every difference. Use the tables to translate a verl or TRL configuration into a recipe.",
        "",
        f"The script [`tests/compare`](../tests/compare) generated this page, with verl {version('verl')}, TRL "
        f"{version('trl')} and PyTorch {torch.__version__.split('+')[0]} on a CPU. The column *difference* contains "
        "the largest absolute difference between Outrider's values and the other library's values. The values are "
        "computed in float64 for random batches of responses of different lengths. The table *Advantages* compares "
        "advantages. The tables *Losses* and *Far apart* compare losses, and the gradients of the losses with respect "
        "to every log-probability. If the last column gives a reason for a difference, the number in parentheses is "
        "the difference that remains once this reason is taken into account. "
        "[`tests/credit/test_comparison.py`](../tests/credit/test_comparison.py) requires a remaining difference of at "
        "most 1e-6. This test needs verl and TRL, which you can install as described in "
        "[The environment of the comparison](use-outside.md#the-environment-of-the-comparison).",
        "",
    ]
    for title, said, table in TABLES:
        lines += [
            f"## {title}",
            "",
            *([said] if said else []),
            "| theirs | ours | difference | reason (remaining difference) |",
            "|---|---|---:|---|",
        ]
        for line in table:
            raw, explained = line.compare()
            left = line.why + (f" ({_number(explained)})" if raw > TOLERANCE else "")
            lines.append(f"| {line.theirs} | {line.ours} | {_number(raw)} | {left} |")
        lines.append("")
    return "\n".join([*lines, NOT_COMPARED])


def _number(difference: float) -> str:
    return "0" if difference < 1e-12 else f"{difference:.0e}" if difference < 1e-3 else f"{difference:.2g}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
