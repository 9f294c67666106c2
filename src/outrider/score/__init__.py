"""Scoring saved generations against a task: no model is needed.

``outrider.score(…)`` is :func:`outrider.api.scoring.score`.
"""

from outrider.callable_room import make_callable

make_callable(__name__, "outrider.api.scoring", "score")
