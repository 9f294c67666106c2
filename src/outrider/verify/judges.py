"""Every judge by the name that a recipe gives it."""

from outrider.verify.function import Function
from outrider.verify.judge import Judge
from outrider.verify.question_answering import QuestionAnswering
from outrider.verify.short_answer import Exact, Number

JUDGES: dict[str, type[Judge]] = {
    "number": Number,
    "exact": Exact,
    "qa": QuestionAnswering,
    "function": Function,
}
