"""Comparing recipes: the same budget, seeds and held-out problems for each, one table and one picture.

``outrider.bench(…)`` is :func:`outrider.api.benching.bench`.
"""

from outrider.callable_room import make_callable

make_callable(__name__, "outrider.api.benching", "bench")
