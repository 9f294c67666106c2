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
Not compared, because there is nothing on the other side. In verl: `gae` and the optimal token baselines, which need a
critic or sums over the vocabulary; `opo`, a mean weighted by length; `gdpo`, several rewards; the losses `dppo_tv`,
`dppo_kl`, `dro` and `bypass_mode`; of `kl_penalty` `abs`, and `k1+` and `k3+`, which have the gradient of k2. In TRL:
`luspo`, `vespo` and the mask of `off_policy_mask_threshold`. TRL's advantages, and its importance weights for vLLM, are
parts of a method that also samples and scores: by reading, a `group_mean` with an epsilon of 1e-4, and a `correction`
as verl's. `top_entropy_quantile` there takes a quantile, `forking` here a number of tokens, so the two may differ by
one token at the threshold.
"""


TABLES = (
    ("Advantages", "", ADVANTAGES),
    ("Losses", f"Log-ratios are of the order of 0.4 here; [below](#far-apart) they reach {REACH:.0f}.\n", LOSSES),
    ("Far apart", f"The same losses with half of the tokens' log-ratios anywhere within ±{REACH:.0f}.\n", FAR),
)


def page() -> str:
    """The table as Markdown."""
    lines = [
        "# Outrider beside verl and TRL",
        "",
        f"Written by [`tests/compare`](../tests/compare), with verl {version('verl')}, TRL {version('trl')} and "
        f"PyTorch {torch.__version__.split('+')[0]} on a CPU: the largest difference over random ragged batches in "
        "float64, of advantages, or of loss and gradient by every log-probability. "
        "[`tests/credit/test_comparison.py`](../tests/credit/test_comparison.py) holds each line to 1e-6, after the "
        "reason that it gives. How to run it: [Outrider outside](use-outside.md).",
        "",
    ]
    for title, said, table in TABLES:
        lines += [
            f"## {title}",
            "",
            *([said] if said else []),
            "| theirs | ours | difference | why, and what then remains |",
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
