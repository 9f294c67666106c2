"""Reports: a run's rollouts on disk as facts, findings and one page.

``outrider.report(…)`` is :func:`outrider.api.reporting.report`.
"""

from outrider.callable_room import make_callable

make_callable(__name__, "outrider.api.reporting", "report")
