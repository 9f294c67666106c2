"""Reports: facts, findings and one HTML page from a run's recorded rollouts.

``outrider.report(…)`` is :func:`outrider.api.reporting.report`.
"""

from outrider.callable_room import make_callable

make_callable(__name__, "outrider.api.reporting", "report")
