"""Scores saved generations with a task's verifier, without a model.

``outrider.score(…)`` is :func:`outrider.api.scoring.score`.
"""

from outrider.callable_room import make_callable

make_callable(__name__, "outrider.api.scoring", "score")
