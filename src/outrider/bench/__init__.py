"""Compares recipes at the same budget, with the same seeds and held-out problems, in one table and one figure.

``outrider.bench(…)`` is :func:`outrider.api.benching.bench`.
"""

from outrider.callable_room import make_callable

make_callable(__name__, "outrider.api.benching", "bench")
