"""Checks the data of a task before a run.

``outrider.validate(…)`` is :func:`outrider.api.validation.validate`.
"""

from outrider.callable_room import make_callable

make_callable(__name__, "outrider.api.validation", "validate")
