"""All verifiers that do not combine other verifiers, keyed by their names in recipes."""

from outrider.verify.choice import MultipleChoice
from outrider.verify.code import Stdio, UnitTests
from outrider.verify.function import Function
from outrider.verify.maths import Maths
from outrider.verify.question_answering import QuestionAnswering
from outrider.verify.short_answer import Exact, Number
from outrider.verify.verifier import Verifier

SINGLE: dict[str, type[Verifier]] = {
    "number": Number,
    "exact": Exact,
    "math": Maths,
    "choice": MultipleChoice,
    "qa": QuestionAnswering,
    "function": Function,
    "unit_tests": UnitTests,
    "stdio": Stdio,
}
