"""The vocabulary: seeds by identity, ragged groups, rollouts as token ids, and what cannot be changed."""

import hashlib
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.credit import Members, members_by_stream
from outrider.record import (
    RAW,
    Context,
    Group,
    Mode,
    Outcome,
    Prefix,
    Problem,
    Rollout,
    SampleRequest,
    SamplingParams,
    StopReason,
    Verdict,
    correct,
    group_id,
    identity_seed,
    incorrect,
    uniforms,
    unparseable,
)

PROBLEM = Problem("sum", "1+1=")
PARTS = st.lists(st.one_of(st.integers(), st.text(max_size=8)), max_size=4)
WORD = 2**64


def ids(*tokens):
    return np.array(tokens, dtype=np.int32)


def rollout(member=0, own=(1, 2), prefix=(), **more):
    own, prefix = ids(*own), ids(*prefix)
    return Rollout("sum", "train:0:sum", member, ids(9), own, np.full(len(own), -0.5, np.float32), prefix, **more)


# Seeds


def seed_by_hand(*parts):
    """The documented rule, written a second time: BLAKE2b-64 over length-prefixed ``type:value``, less its last bit."""
    message = b""
    for part in parts:
        text = f"{'int' if isinstance(part, int) else 'str'}:{part}".encode("utf-8", "surrogatepass")
        message += len(text).to_bytes(4, "little") + text
    return int.from_bytes(hashlib.blake2b(message, digest_size=8).digest(), "little") // 2


@given(PARTS)
def test_seed_follows_its_rule_and_fits_a_signed_integer(parts):
    assert identity_seed(*parts) == seed_by_hand(*parts)
    assert 0 <= identity_seed(*parts) < 2**63


@given(PARTS, PARTS)
def test_seeds_differ_whenever_identities_do(a, b):
    """A collision of 63-bit seeds has probability 1e-19 here; how parts are cut and typed must matter."""
    assert (identity_seed(*a) == identity_seed(*b)) == (a == b)


@given(st.text(min_size=1, max_size=6), st.data())
def test_a_text_cut_elsewhere_is_another_identity(text, data):
    cut, other = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, len(text)))
    same = identity_seed(text[:cut], text[cut:]) == identity_seed(text[:other], text[other:])
    assert same == (cut == other)


def test_seeds_of_a_run_are_distinct():
    seeds = {identity_seed(0, f"train:{step}:{p}", m) for step in range(20) for p in range(50) for m in range(32)}
    assert len(seeds) == 20 * 50 * 32


# Uniform numbers


def splitmix64(seed, position):
    """Steele, Lea and Flood's generator in Python integers: its output number ``position``."""
    z = (seed + (position + 1) * 0x9E3779B97F4A7C15) % WORD
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


def seed_with_first_output(output):
    """The inverse of ``splitmix64(seed, 0)``: every step of it can be undone."""

    def unshift(z, bits):
        x = z
        for _ in range(64 // bits):
            x = z ^ (x >> bits)
        return x

    z = unshift(output, 31) * pow(0x94D049BB133111EB, -1, WORD) % WORD
    z = unshift(z, 27) * pow(0xBF58476D1CE4E5B9, -1, WORD) % WORD
    return (unshift(z, 30) - 0x9E3779B97F4A7C15) % WORD


def test_generator_reproduces_the_published_sequence():
    """First outputs of SplitMix64 for seed 1234567, as its reference C code prints them."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [splitmix64(1234567, i) for i in range(4)] == published
    found = uniforms(np.array([1234567]), np.arange(4))[0]
    np.testing.assert_allclose(found, [output / WORD for output in published], rtol=0, atol=2.0**-53)


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=4), st.lists(st.integers(0, 2**20), max_size=5))
def test_each_number_depends_on_its_seed_and_position_only(seeds, positions):
    found = uniforms(np.array(seeds, dtype=np.int64), np.array(positions, dtype=np.int64))
    assert found.shape == (len(seeds), len(positions))
    for row, seed in zip(found, seeds, strict=True):
        assert [int(u * 2**53) for u in row] == [splitmix64(seed, p) >> 11 | 1 for p in positions]


@pytest.mark.parametrize("output", [0, 1, WORD - 1, WORD - 2**11, WORD // 2, WORD // 2 - 1])
def test_neither_zero_nor_one_at_the_ends_of_the_range(output):
    """An inverse-CDF draw with 1 would pick a token past the vocabulary; 2^-53 is rare, and not never."""
    seed = seed_with_first_output(output)
    assert splitmix64(seed, 0) == output
    number = uniforms(np.array([seed], dtype=np.uint64), np.arange(1))[0, 0]
    assert 0.0 < number < 1.0
    assert number == pytest.approx(output / WORD, abs=2.0**-52)


def test_numbers_are_uniform_along_and_across_rollouts():
    """Kolmogorov-Smirnov at 1e-6 (2.69 / sqrt n) per row, per column and overall, and no correlation of neighbours."""
    seeds = np.array([identity_seed(0, "g", member) for member in range(256)])
    table = uniforms(seeds, np.arange(256))
    for sample in (*table, *table.T, table.ravel()):
        n = len(sample)
        rank = np.arange(n) / n
        distance = max((np.sort(sample) - rank).max(), (rank + 1 / n - np.sort(sample)).max())
        assert distance < 2.69 / np.sqrt(n)
    for a, b in ((table[:, 1:], table[:, :-1]), (table[1:], table[:-1])):
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 5 / np.sqrt(a.size)


def test_neighbouring_seeds_are_unrelated():
    """Chi-square of 64 bins over consecutive seeds at one position: 63 degrees of freedom, 1e-6 is below 130."""
    sample = uniforms(np.arange(20_000), np.array([0]))[:, 0]
    counts = np.bincount((sample * 64).astype(int), minlength=64)
    expected = len(sample) / 64
    assert ((counts - expected) ** 2 / expected).sum() < 130


# Rollouts


@given(st.lists(st.integers(0, 9), max_size=5), st.lists(st.integers(0, 9), max_size=5))
def test_a_response_is_its_prefix_then_its_own_tokens(prefix, own):
    branch = rollout(own=own, prefix=prefix, text="own", prefix_text="prefix ")
    assert branch.response_ids.tolist() == prefix + own
    assert branch.response_ids.dtype == np.int32
    assert branch.response_text == "prefix own"
    assert branch.branch_at == len(prefix)
    assert branch.trainable_tokens == len(own)


def test_a_branch_of_a_branch_keeps_the_whole_path():
    root = rollout(0, own=(1, 2, 3))
    child = rollout(1, own=(4, 5), prefix=root.response_ids[:2], parent=root.id)
    prefix = Prefix(child.id, child.response_ids[:3])
    assert prefix.ids.tolist() == [1, 2, 4]
    assert prefix.branch_at == 3


def test_observed_tokens_are_own_but_not_trainable():
    turn = rollout(own=(1, 2, 3), trainable_T=np.array([True, False, True]))
    assert turn.trainable_tokens == 2
    assert turn.response_ids.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("stop", "truncated"), [(StopReason.STOP, False), (StopReason.LENGTH, True), (StopReason.CONTEXT, True)]
)
def test_truncation_is_any_end_but_the_models_own(stop, truncated):
    assert rollout(stop=stop).truncated is truncated


@pytest.mark.parametrize(
    ("verdict", "success"),
    [
        (None, False),
        (correct(), True),
        (incorrect(), False),
        (unparseable(), False),
        (Verdict(Outcome.INCORRECT, 0.99), False),  # a graded score is no success
        (Verdict(Outcome.TIMEOUT, float("nan")), False),
        (Verdict(Outcome.ERROR, float("nan")), False),
    ],
)
@pytest.mark.parametrize("reward", [None, 0.0, 1.0, float("nan")])
def test_success_is_the_verdict_whatever_the_reward(verdict, success, reward):
    assert rollout(verdict=verdict, reward=reward).success is success


def test_verified_returns_a_new_rollout():
    before = rollout()
    after = before.verified(correct("2"), 1.0)
    assert (before.verdict, before.reward) == (None, None)
    assert (after.verdict, after.reward, after.id) == (correct("2"), 1.0, before.id)
    assert after.token_ids is before.token_ids


def test_the_first_reason_for_being_excluded_stands():
    assert rollout().excluded("zero variance").excluded("stale").unused == "zero variance"


@pytest.mark.parametrize(
    ("record", "name"),
    [
        (PROBLEM, "prompt"),
        (rollout(), "reward"),
        (correct(), "score"),
        (Group(PROBLEM, "g"), "rollouts"),
        (SampleRequest(PROBLEM), "n"),
        (SamplingParams(), "temperature"),
        (Prefix("p", ids()), "parent"),
        (Context(), "kind"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_records_cannot_be_changed(record, name):
    with pytest.raises(FrozenInstanceError):
        setattr(record, name, None)


def test_log_probabilities_name_the_distribution_they_belong_to():
    """Temperature is applied, truncation is not; greedy reports the model's own softmax."""
    assert SamplingParams(temperature=0.7, top_p=0.9, top_k=5).logprob_mode == Mode(0.7, 1.0, 0)
    assert SamplingParams(temperature=0.0).logprob_mode == RAW == SamplingParams().logprob_mode


# Groups


@given(st.permutations(range(7)), st.integers(0, 7))
def test_members_join_in_their_order_however_they_arrive(order, cut):
    members = {m: rollout(m) for m in range(7)}
    arrived = [members[m] for m in order]
    group = Group(PROBLEM, "train:0:sum").joined(arrived[:cut]).joined(arrived[cut:])
    assert [r.member for r in group.rollouts] == list(range(7))
    assert all(r is members[r.member] for r in group.rollouts)


@given(st.lists(st.sampled_from([None, correct(), incorrect(), unparseable()]), max_size=6))
def test_counts_follow_the_verdicts(verdicts):
    group = Group(PROBLEM, "g").joined(rollout(m, own=range(m), verdict=v) for m, v in enumerate(verdicts))
    wins = verdicts.count(correct())
    assert (group.size, group.successes) == (len(verdicts), wins)
    assert group.mixed == (0 < wins < len(verdicts))
    assert group.generated_tokens == sum(range(len(verdicts)))


def test_a_forest_knows_its_roots_and_children():
    root, other = rollout(0), rollout(1)
    twigs = [rollout(m, prefix=(1,), parent=root.id) for m in (2, 3)]
    leaf = rollout(4, prefix=(1, 1), parent=twigs[0].id)
    group = Group(PROBLEM, "train:0:sum", (root, other, *twigs, leaf))
    assert group.roots == (root, other)
    assert group.children(root) == tuple(twigs)
    assert group.children(twigs[0]) == (leaf,)
    assert group.children(leaf) == ()


def test_a_problem_that_returns_makes_another_group():
    made = {group_id(step, PROBLEM, purpose) for step in (0, 1) for purpose in ("train", "evaluate")}
    assert len(made) == 4


# Members: a group as arrays


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([None, 0.0, 1.0, float("nan")])), max_size=6))
@settings(deadline=None)
def test_members_are_the_rollouts_as_ragged_arrays(shape):
    rollouts = [
        rollout(m, own=range(length), reward=reward, verdict=correct() if reward == 1.0 else incorrect())
        for m, (length, reward) in enumerate(shape)
    ]
    members = Members.of(rollouts)
    assert members.size == len(shape)
    assert members.tokens_G.tolist() == [length for length, _ in shape]
    assert members.success_G.tolist() == [reward == 1.0 for _, reward in shape]
    scored = [reward is not None and reward == reward for _, reward in shape]
    assert np.isfinite(members.rewards_G).tolist() == scored
    assert members.valid_G.tolist() == [s and length > 0 for s, (length, _) in zip(scored, shape, strict=True)]
    assert [a.tolist() for a in members.logprobs_GT] == [[-0.5] * length for length, _ in shape]
    assert all(a.dtype == np.float64 for a in (members.rewards_G, *members.logprobs_GT))
    assert all(a.size == 0 for a in members.entropies_GT)  # not recorded


def test_entropies_pass_where_recorded():
    recorded = rollout(own=(1, 2), entropies_T=np.array([0.25, 0.5], np.float32))
    assert Members.of([recorded]).entropies_GT[0].tolist() == [0.25, 0.5]


def test_observed_tokens_are_in_no_array_of_the_members():
    turn = rollout(own=(1, 2, 3), trainable_T=np.array([True, False, True]))
    turn = replace(
        turn,
        logprobs_T=np.array([-1, np.nan, -3], np.float32),
        entropies_T=np.array([0.5, np.nan, 0.25], np.float32),
    )
    members = Members.of([turn])
    assert members.tokens_G.tolist() == [2]
    assert members.logprobs_GT[0].tolist() == [-1, -3]
    assert members.entropies_GT[0].tolist() == [0.5, 0.25]


def test_streams_are_split_and_none_is_lost():
    parts = members_by_stream(
        Group(PROBLEM, "g", tuple(replace(rollout(m), stream=s) for m, s in enumerate(["main", "branch", "main"])))
    )
    assert {s: [r.member for r in rs] for s, rs in parts.items()} == {"main": [0, 2], "branch": [1]}
