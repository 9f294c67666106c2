"""Fuzz the judge of maths: ``python tools/fuzz_maths.py [--minutes 10] [--engine hypothesis|atheris]``.

``hypothesis`` sends batches of responses, made of what LaTeX and hostile answers are made of, through the pool; what
ends in anything but correct, incorrect or unparseable is a finding. ``atheris`` mutates bytes, led by coverage, for
all that reads text before the parser; what raises, or takes more than 0.1 s, is a finding. Findings go, one a
file, to tests/corpus/maths, which tests/test_verify_hostile.py replays.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from outrider.record import Outcome, Problem

CORPUS = Path(__file__).parents[1] / "tests" / "corpus" / "maths"
GOLDS = [
    r"42",
    r"0.5",
    r"\frac{\pi}{2}",
    r"x^2+2x+1",
    r"\{1,2\}",
    r"(1,\infty)",
    r"\text{Evelyn}",
    r"x=1,2",
    r"50\%",
    r"2x+y=3",
]
_PIECES = r"""
\boxed{ { } ( ) [ ] \{ \} \left( \right) , ; = < \le \in \cup \cap \setminus \pm \frac{ \frac \sqrt{ \sqrt[3]{
^ ^{ _ _{ ! ' " $ % \% ° ^\circ \text{ \mathrm{ \begin{pmatrix} \end{pmatrix} & \\ \sum_{ \int \lim \log \sin
\arctan \binom{ \infty \pi e i x y n 0 1 2 7 10 99 1000 1e5 0.5 .3 3. 1,000 10^9 + - * / \cdot \times : |
\lfloor \rfloor \gcd \max \prime \mathbb{R} \emptyset \ldots and or \and \or cm million #### Answer: \x \ ~ \,
\! \quad \overline{ \det \to \forall \neq \approx \over \choose \vec{ d \partial
"""
PIECES = [*_PIECES.split(), "\n", " ", "\0", "\ud800", "\u202e", "\u0663", "9" * 40]
SHAPES = [r"\frac{%s}{%s}", "%s^{%s}", "%s_{%s}", "(%s,%s)", r"\{%s,%s\}", "%s=%s", "%s+%s", "%s%s!"]
CHECKS = list(HealthCheck)

fragments = st.recursive(
    st.sampled_from(PIECES) | st.integers(-(10**6), 10**6).map(str) | st.text(max_size=3),
    lambda inner: st.one_of(
        st.lists(inner, max_size=6).map("".join),
        st.tuples(
            st.sampled_from(
                [r"\frac{%s}{%s}", "%s^{%s}", "%s_{%s}", "(%s,%s)", r"\{%s,%s\}", "%s=%s", "%s+%s", "%s%s!"]
            ),
            inner,
            inner,
        ).map(lambda t: t[0].replace("%s", t[1], 1).replace("%s", t[2], 1)),
        inner.map(lambda s: r"\sqrt{" + s + "}"),
    ),
    max_leaves=25,
)


def keep(gold: str, text: str, why: str) -> None:
    """One finding as a file whose name is its hash."""
    CORPUS.mkdir(parents=True, exist_ok=True)
    found = {"gold": gold, "text": text, "found": why}
    name = hashlib.blake2b(json.dumps([gold, text]).encode(), digest_size=6).hexdigest()
    (CORPUS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    print("found", name, why[:120], ascii(text)[:200], flush=True)


def by_hypothesis(end: float) -> int:
    """Batches through a pool until the time is over; how many responses were judged."""
    from outrider.verify.judge import Prepared
    from outrider.verify.maths import Maths
    from outrider.verify.pool import VerifierPool

    judged = 0
    with VerifierPool(Prepared(Maths(boxes="all", no_box="last_number")), workers=1, seconds=5) as pool:
        while time.monotonic() < end:

            @settings(
                max_examples=20,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=CHECKS,
            )
            @given(st.lists(st.tuples(st.sampled_from(GOLDS), fragments), min_size=20, max_size=40))
            def round_of(batch: list[tuple[str, str]]) -> None:
                nonlocal judged
                if time.monotonic() > end:
                    return
                items = [(Problem("p", "", answer=gold), rf"\boxed{{{text}}}", True) for gold, text in batch]
                for (gold, text), verdict in zip(batch, pool.verify(items), strict=True):
                    judged += 1
                    if verdict.outcome in (Outcome.ERROR, Outcome.TIMEOUT):
                        keep(gold, text, f"{verdict.outcome}: {verdict.detail}")

            round_of()
    return judged


def by_atheris(seconds: float) -> None:
    """Bytes led by coverage, until the time is over or something raises; libFuzzer prints how many."""
    import atheris

    with atheris.instrument_imports(include=["outrider.verify"]):
        from outrider.verify import answers, latex

    def one(data: bytes) -> None:
        text = (
            data.decode("utf-8", "surrogatepass" if data[:1] < b"\x80" else "replace")
            if _decodes(data)
            else data.decode("latin-1")
        )
        start = time.process_time()
        try:
            for answer in [text, *answers.boxes(text), answers.answer_line(text) or ""]:
                answers.number(answer)
                answers.normalise(answer)
                latex.refuse(answer)
                latex.read.__wrapped__(answer)
        except latex.UnreadableError:
            pass
        except Exception as error:
            keep("42", text, f"{type(error).__name__}: {error}")
            raise
        if time.process_time() - start > 0.1:
            keep("42", text, f"slow: {time.process_time() - start:.2f} s")

    atheris.Setup([sys.argv[0], f"-max_total_time={int(seconds)}", "-max_len=2000", "-print_final_stats=1"], one)
    atheris.Fuzz()


def _decodes(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def main() -> None:
    """Read the command line and fuzz."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--engine", choices=["hypothesis", "atheris"], default="hypothesis")
    arguments: Any = parser.parse_args()
    if arguments.engine == "atheris":
        return by_atheris(60 * arguments.minutes)
    print("judged", by_hypothesis(time.monotonic() + 60 * arguments.minutes))
    return None


if __name__ == "__main__":
    main()
