"""Fuzz the verifier of maths: ``python tools/fuzz_maths.py [--seconds 600] [--engine hypothesis|atheris]``.

``hypothesis`` sends batches through the pool: responses made of what LaTeX and hostile answers are made of, where
anything but correct, incorrect or unparseable is a finding, and pairs of which it is known whether they are equal
(tools/maths_pairs.py: letters with floor, gcd and absolute values, lists, units, typography, copies of the question,
programs' writing, equations, answers cut to a few points),
where a wrong verdict is one. ``atheris`` mutates bytes, led by coverage, for all that reads text before the parser;
what raises, or takes more than 0.1 s, is a finding. Crashes and hangs go, one a file, to tests/corpus/maths, which
tests/verify/test_verify_hostile.py replays. The last line counts; the exit status is 1 where anything was found.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from maths_pairs import Pair, pairs

from outrider.record import Outcome, Problem, Verdict

CORPUS = Path(__file__).parents[1] / "tests" / "corpus" / "maths"
GOLDS = [
    r"42",
    r"0.5",
    r"\frac{\pi}{2}",
    r"x^2+2x+1",
    r"\lfloor n/2 \rfloor",
    r"\gcd(m,n)",
    r"|x-10|",
    r"\{1,2\}",
    r"(1,\infty)",
    r"\text{Evelyn}",
    r"x=1,2",
    r"50\%",
    r"5\text{ cm}",
    r"2x+y=3",
]
_FRAGMENTS = r"""
\boxed{ { } ( ) [ ] \{ \} \left( \right) , ; = < \le \in \cup \cap \setminus \pm \frac{ \frac \sqrt{ \sqrt[3]{
^ ^{ _ _{ ! ' " $ % \% ° ^\circ \text{ \mathrm{ \begin{pmatrix} \end{pmatrix} & \\ \sum_{ \int \lim \log \sin
\arctan \binom{ \infty \pi e i x y n 0 1 2 7 10 99 1000 1e5 0.5 .3 3. 1,000 10^9 + - * / \cdot \times : |
\lfloor \rfloor \gcd \max \prime \mathbb{R} \emptyset \ldots and or \and \or cm million #### Answer: \x \ ~ \,
\! \quad \overline{ \det \to \forall \neq \approx \over \choose \vec{ d \partial \lceil \rceil \bmod
\operatorname{lcm}( \max( \min( \gcd( n! \sum_{k=1}^{ \prod_{k=1}^{ √ ² ₁ π ½ ≤ ∞ \mathbf{ \fbox{ \textnormal{ \degree
percent apples \angle \begin{matrix} \end{matrix} 0.\overline{3} {,}
pi sqrt( sin( exp( oo ** <= >= != abs( binomial( erf( theta log( _\odot _{\max} ^* \nabla\times \vec{a}\times\vec{b}
1:2:3 12:05 (1-n)! \sum_{k=1}^{n^9} \text{Area}= \text{.} 个 答案:4 7元 dozen mW \begin{array}{cc} \end{array} \{x:
"""
FRAGMENTS = [*_FRAGMENTS.split(), "\n", " ", "\0", "\ud800", "\u202e", "\u0663", "9" * 40]
SHAPES = [r"\frac{%s}{%s}", "%s^{%s}", "%s_{%s}", "(%s,%s)", r"\{%s,%s\}", "%s=%s", "%s+%s", "%s%s!"]
CHECKS = list(HealthCheck)

fragments = st.recursive(
    st.sampled_from(FRAGMENTS) | st.integers(-(10**6), 10**6).map(str) | st.text(max_size=3),
    lambda inner: st.one_of(
        st.lists(inner, max_size=6).map("".join),
        st.tuples(st.sampled_from(SHAPES), inner, inner).map(
            lambda t: t[0].replace("%s", t[1], 1).replace("%s", t[2], 1)
        ),
        inner.map(lambda s: r"\sqrt{" + s + "}"),
    ),
    max_leaves=25,
)
hostile = st.builds(Pair, st.just("hostile"), st.sampled_from(GOLDS), fragments, st.none())


def keep(gold: str, text: str, why: str) -> None:
    """One finding as a file whose name is its hash."""
    CORPUS.mkdir(parents=True, exist_ok=True)
    found = {"gold": gold, "text": text, "found": why}
    name = hashlib.blake2b(json.dumps([gold, text]).encode(), digest_size=6).hexdigest()
    (CORPUS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    print("found", name, why[:120], ascii(text)[:200], flush=True)


def finding(pair: Pair, verdict: Verdict) -> str:
    """What is wrong with a verdict; empty where nothing is."""
    if verdict.outcome in (Outcome.ERROR, Outcome.TIMEOUT):
        keep(pair.gold, pair.answer, f"{verdict.outcome}: {verdict.detail}")
        return "errors or timeouts"
    if pair.expected is None or verdict.success is pair.expected:
        return ""
    what = "false accepts" if verdict.success else "false rejects"
    print(what, pair.kind, ascii(pair.gold), ascii(pair.answer), ascii(pair.prompt), verdict.detail, flush=True)
    return what


def by_hypothesis(end: float) -> tuple[Counter[str], Counter[str]]:
    """Batches through a pool until the time is over: how many were verified of each kind, and what was found."""
    from outrider.verify.maths import Maths
    from outrider.verify.pool import VerifierPool
    from outrider.verify.verifier import Prepared

    verified: Counter[str] = Counter()
    found: Counter[str] = Counter()
    with VerifierPool(Prepared(Maths(no_box="last_number")), workers=1, seconds=5) as pool:
        while time.monotonic() < end:

            @settings(
                max_examples=20,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=CHECKS,
            )
            @given(st.lists(hostile | pairs(), min_size=20, max_size=40))
            def round_of(batch: list[Pair]) -> None:
                if time.monotonic() > end:
                    return
                items = [(Problem("p", p.prompt, answer=p.gold), rf"\boxed{{{p.answer}}}", True) for p in batch]
                for pair, verdict in zip(batch, pool.verify(items), strict=True):
                    verified[pair.kind] += 1
                    if wrong := finding(pair, verdict):
                        found[wrong] += 1

            round_of()
    return verified, found


def by_atheris(seconds: float) -> None:
    """Bytes led by coverage, until the time is over or something raises; libFuzzer prints how many."""
    import atheris

    with atheris.instrument_imports(include=["outrider.verify"]):
        from outrider.verify import answers, latex, nodes
        from outrider.verify.answer_lines import answer_line

    def one(data: bytes) -> None:
        text = (
            data.decode("utf-8", "surrogatepass" if data[:1] < b"\x80" else "replace")
            if _decodes(data)
            else data.decode("latin-1")
        )
        start = time.process_time()
        try:
            for answer in [text, *answers.boxes(text), answer_line(text) or ""]:
                answers.number(answer)
                answers.normalise(answer)
                latex.refuse(answer)
                nodes.read.__wrapped__(answer)
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


def main() -> int:
    """Read the command line and fuzz."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--engine", choices=["hypothesis", "atheris"], default="hypothesis")
    arguments = parser.parse_args()
    if arguments.engine == "atheris":
        by_atheris(arguments.seconds)
        return 0
    verified, found = by_hypothesis(time.monotonic() + arguments.seconds)
    print("verified", dict(sorted(verified.items())))
    kinds = ("errors or timeouts", "false accepts", "false rejects")
    counts = ", ".join(f"{found[kind]} {kind}" for kind in kinds)
    print(f"{'FOUND' if found else 'OK'}: {verified.total()} answers in {arguments.seconds:g} s, {counts}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
