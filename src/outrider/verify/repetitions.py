r"""Decides whether a repeated answer counts once. Two boxes ``\boxed{-2}`` usually mean one answer -2. If the gold
answer has equal members too, the two boxes mean the list ``-2, -2``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from outrider.verify.answers import LONGEST, normalise, number
from outrider.verify.latex import UnreadableError
from outrider.verify.nodes import read, split

MOST_COPIES = 4  # maximum copies of one answer that are kept, since no gold answer has more equal members


def joined_boxes(boxes: Sequence[str], keys: Sequence[str], repeated: bool) -> str:
    r"""Join the contents of several boxes into one list. Equal contents are listed once or, if ``repeated``, up to
    ``MOST_COPIES`` times.

    Args:
        boxes: the contents of the boxes.
        keys: one key per box; boxes with equal contents have equal keys.
        repeated: whether to keep repeated contents.

    >>> boxes = ["-2", "-2", "3"]
    >>> joined_boxes(boxes, boxes, repeated=True), joined_boxes(boxes, boxes, repeated=False)
    ('-2, -2, 3', '-2, 3')
    """
    seen: Counter[str] = Counter()
    kept = []
    for box, key in zip(boxes, keys, strict=True):
        seen[key] += 1
        if seen[key] <= (MOST_COPIES if repeated else 1):
            kept.append(box)
    return ", ".join(kept)


def without_repetitions(gold: str, answer: str) -> str:
    """Remove repeated members from an answer unless the gold answer has repeated members too.

    >>> without_repetitions("7", "7, 7"), without_repetitions("-2,-2", "-2, -2"), without_repetitions("(1,1)", "1, 1")
    ('7', '-2, -2', '1, 1')
    """
    if ", " not in answer or len(answer) > LONGEST or number(answer) is not None:  # 111, \!111 is one number
        return answer
    every = split(answer)
    members = {normalise(member): member for member in reversed(every)}
    if len(members) == len(every) or _repeats(gold):
        return answer
    return ", ".join(reversed(members.values()))


def _repeats(gold: str) -> bool:
    try:
        node = read(gold)
    except UnreadableError:
        return True
    while len(node.parts) == 1:
        node = node.parts[0]
    members = [normalise(part.text) for part in node.parts]
    return len(set(members)) < len(members)
