"""Builds reports, which present facts, findings and figures from a run's recorded rollouts on one HTML page.

``outrider.report(…)`` is :func:`outrider.api.reporting.report`.
"""

from outrider.callable_room import make_callable

make_callable(__name__, "outrider.api.reporting", "report")
