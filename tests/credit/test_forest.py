"""The forest of a group, against a count of who goes through which token."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forests import Drawn, forests, rollout, rollouts
from outrider.credit import Members
from outrider.credit.forest import Forest, trees
from outrider.record import Context, Rollout


def slices(forest: Forest) -> list[tuple[int, int, int, int]]:
    columns = (forest.owners_S, forest.begins_S, forest.ends_S, forest.parents_S)
    return [tuple(row) for row in np.stack(columns, 1).tolist()]


@given(forests())
def test_segments_are_the_longest_runs_of_tokens_that_the_same_members_go_through(drawn: Drawn) -> None:
    forest = Forest.of(drawn.members)
    last: dict[int, tuple[int, set[int]]] = {}  # by owner: end of its previous segment, and who goes through it
    for owner, begin, end, _ in slices(forest):
        members = drawn.through((owner, begin))
        assert begin < end
        assert all(drawn.through((owner, k)) == members for k in range(begin, end))
        previous_end, previous = last.get(owner, (0, set(range(drawn.members.size)) | {-1}))
        assert begin == previous_end
        assert members < previous  # a proper subset: somebody left here
        last[owner] = end, members
    assert {owner: end for owner, (end, _) in last.items()} == {
        i: int(n) for i, n in enumerate(drawn.members.tokens_G) if n
    }


@given(forests())
def test_leaves_below_a_segment_are_the_members_that_go_through_it(drawn: Drawn) -> None:
    forest = Forest.of(drawn.members)
    for i in range(drawn.members.size):
        alone = np.arange(drawn.members.size) == i
        expected = [i in drawn.through((owner, begin)) for owner, begin, _, _ in slices(forest)]
        assert forest.below(alone).tolist() == expected
    values_G = np.arange(1.0, drawn.members.size + 1)
    sums = [sum(values_G[j] for j in drawn.through((owner, begin))) for owner, begin, _, _ in slices(forest)]
    assert forest.below(values_G).tolist() == sums


@given(forests())
def test_the_segment_before_holds_the_token_before(drawn: Drawn) -> None:
    forest = Forest.of(drawn.members)
    segment_of = {(owner, k): s for s, (owner, begin, end, _) in enumerate(slices(forest)) for k in range(begin, end)}
    for s, (owner, begin, _, parent) in enumerate(slices(forest)):
        place = drawn.paths[owner].index((owner, begin))
        before = drawn.paths[owner][place - 1] if place else None
        assert parent == segment_of.get(before, -1) < s
    for i, path in enumerate(drawn.paths):
        assert forest.leaves_G[i] == (segment_of.get(path[-1], -1) if path else -1)


@given(forests())
def test_values_of_segments_reach_every_token_of_theirs(drawn: Drawn) -> None:
    forest = Forest.of(drawn.members)
    counts = forest.per_token(forest.below(np.ones(drawn.members.size)))
    assert [c.tolist() for c in counts] == [
        [len(drawn.through((i, k))) for k in range(n)] for i, n in enumerate(drawn.members.tokens_G.tolist())
    ]


@given(forests())
def test_trees_are_the_members_with_one_root(drawn: Drawn) -> None:
    tree = trees(drawn.members.parents_G)
    for i, parent in enumerate(drawn.members.parents_G.tolist()):
        assert tree[i] == (tree[parent] if parent >= 0 else i)


def test_a_branch_inside_its_parents_prefix_hangs_on_who_owns_it() -> None:
    """0 has six tokens; 1 leaves it after four; 2 leaves 1 after two tokens of the path, which are 0's."""
    members = Members(
        np.zeros(3),
        np.zeros(3, bool),
        np.array([6, 3, 3]),
        parents_G=np.array([-1, 0, 1]),
        starts_G=np.array([0, 4, 2]),
    )
    forest = Forest.of(members)
    assert slices(forest) == [(0, 0, 2, -1), (0, 2, 4, 0), (0, 4, 6, 1), (1, 0, 3, 1), (2, 0, 3, 0)]
    assert forest.leaves_G.tolist() == [2, 3, 4]
    assert forest.below(np.ones(3)).tolist() == [3, 2, 1, 1, 1]


def test_a_branch_at_its_parents_end_cuts_nothing_and_one_at_its_start_is_another_root() -> None:
    members = Members(
        np.zeros(3),
        np.zeros(3, bool),
        np.array([4, 2, 2]),
        parents_G=np.array([-1, 0, 0]),
        starts_G=np.array([0, 4, 0]),
    )
    forest = Forest.of(members)
    assert slices(forest) == [(0, 0, 4, -1), (1, 0, 2, 0), (2, 0, 2, -1)]
    assert forest.below(np.ones(3)).tolist() == [2, 1, 1]
    assert trees(members.parents_G).tolist() == [0, 0, 0]


def test_a_group_without_members_is_a_forest() -> None:
    forest = Forest.of(Members(np.zeros(0), np.zeros(0, bool), np.zeros(0, np.int64)))
    assert (forest.size, forest.below(np.zeros(0)).tolist(), forest.per_token(np.zeros(0))) == (0, [], [])


def test_a_chain_of_a_thousand_branches_needs_no_recursion() -> None:
    n = 1000
    chain = Members(
        np.zeros(n),
        np.zeros(n, bool),
        np.full(n, 2),
        parents_G=np.arange(-1, n - 1),
        starts_G=np.arange(n),
    )
    forest = Forest.of(chain)
    assert forest.size == 2 * n - 1  # all but the last are cut in two
    assert forest.below(np.ones(n)).max() == n


@pytest.mark.parametrize(
    ("parents", "starts", "sentence"),
    [
        ([1, 0], [0, 0], "their own ancestors"),
        ([0], [0], "their own ancestors"),
        ([-1, 0], [0, 4], "a branch starts at token 4, but its parent's path has only 3"),
    ],
)
def test_arrays_that_are_no_forest_are_refused(parents: list[int], starts: list[int], sentence: str) -> None:
    n = len(parents)
    members = Members(
        np.zeros(n), np.zeros(n, bool), np.full(n, 3), parents_G=np.array(parents), starts_G=np.array(starts)
    )
    with pytest.raises(ValueError, match=sentence):
        Forest.of(members)


def test_arrays_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="starts_G has 1 entries for 2 members"):
        Members(np.zeros(2), np.zeros(2, bool), np.ones(2, np.int64), starts_G=np.zeros(1, np.int64))


# From rollouts


@given(rollouts(), st.data())
def test_starts_count_the_sampled_tokens_before(group: list[Rollout], data: st.DataObject) -> None:
    """Every token's own number says who sampled it; of a rollout that is not there, all count."""
    kept = data.draw(st.lists(st.sampled_from(group), min_size=1, unique_by=lambda r: r.id))
    members = Members.of(kept)
    flags = {r.id: [True] * len(r.token_ids) if r.trainable_T is None else r.trainable_T.tolist() for r in kept}
    by_id = {r.id: r for r in kept}

    def path(r: Rollout) -> list[bool]:
        return before(r) + flags[r.id]

    def before(r: Rollout) -> list[bool]:
        return path(by_id[r.parent])[: r.branch_at] if r.parent in by_id else [True] * r.branch_at

    assert members.starts_G.tolist() == [sum(before(r)) for r in kept]
    assert [kept[p].id if p >= 0 else None for p in members.parents_G] == [
        r.parent if r.parent in by_id else None for r in kept
    ]
    Forest.of(members)  # whatever is missing, it is a forest


def test_families_are_those_that_start_at_one_place_also_without_their_parent() -> None:
    root, other = rollout(0, [True] * 6), rollout(1, [True] * 6)
    branches = [rollout(i, [True], parent, at) for i, (parent, at) in enumerate([(root, 3), (root, 4), (other, 3)], 2)]
    twins = [rollout(i, [True, True], root, 3) for i in (5, 6)]
    for kept in ([root, other, *branches, *twins], [*branches, *twins]):
        number = dict(zip([r.id for r in kept], Members.of(kept).families_G.tolist(), strict=True))
        assert number["g/2"] == number["g/5"] == number["g/6"]
        assert len({number["g/2"], number["g/3"], number["g/4"]}) == 3
    assert len(set(Members.of([root, other]).families_G.tolist())) == 1  # roots are one family


def test_seeded_members_are_marked() -> None:
    kept = [rollout(0, [True]), rollout(1, [True], context=Context("seeded", ("q",)))]
    assert Members.of(kept).seeded_G.tolist() == [False, True]
    assert Members.of(kept[:1]).seeded_G.tolist() == [False]
