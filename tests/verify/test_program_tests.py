"""The tests of a program in the shapes of data sets: rows as the sets have them, with right and wrong programs."""

from __future__ import annotations

import json

import pytest
from programs import fenced, needs_sandbox, verdict

from outrider.record import Outcome, Problem
from outrider.verify.code import Stdio
from outrider.verify.program_tests import read_tests

SUM = "print(sum(map(int, input().split())))"
COUNT = "n = int(input())\nprint(n, *sorted(input().split()))"
TWO_SUM = """class Solution:
    def twoSum(self, nums: List[int], target: int) -> List[int]:
        seen = {}
        for i, x in enumerate(nums):
            if target - x in seen:
                return [seen[target - x], i]
            seen[x] = i
"""
LONGEST = "def longest(words):\n    return max(words, key=len)"
HELPED = """class Solution:
    def area(self, grid: List[List[int]]) -> int:
        return max(self.size(grid, r, c) for r in range(len(grid)) for c in range(len(grid[0])))
    def size(self, grid, r, c):
        return grid[r][c]
"""


def functional(*cases: tuple[str, str]) -> list[dict[str, str]]:
    return [{"input": given, "output": output, "testtype": "functional"} for given, output in cases]


def named(inputs: list[object], outputs: list[object], name: str = "f") -> dict[str, object]:
    return {"tests": {"fn_name": name, "inputs": inputs, "outputs": outputs}}


def called(given: object, output: object, **more: object) -> dict[str, object]:
    return {"type": "function_call", "input": given, "output": output, **more}


PAIRS = [("[3, 2, 4]\n6", "[1, 2]"), ("[3, 3]\n6", "[0, 1]")]
ROWS: dict[str, tuple[dict[str, object], str]] = {
    "pairs": ({"tests": [{"input": "1 2", "output": "3"}]}, SUM),
    "pairs as JSON text": ({"tests": json.dumps([{"input": "1 2", "output": "3"}] * 2)}, SUM),
    "numbers on both sides": ({"tests": [{"input": 5, "output": 5.0}]}, SUM),
    "lists of inputs and outputs": ({"tests": {"inputs": ["1 2\n", "7\n"], "outputs": ["3\n", "7\n"]}}, SUM),
    "lists as JSON text": ({"tests": json.dumps({"inputs": ["1 2"], "outputs": ["3"]})}, SUM),
    "lists of lines": ({"tests": {"inputs": [["2", "b a"]], "outputs": [["2 a b"]]}}, COUNT),
    "outputs of several lines": ({"tests": {"inputs": ["1"], "outputs": [["1", "2"]]}}, "print(1)\nprint(2)"),
    "numbers in lists": ({"tests": {"inputs": [5, 6], "outputs": [5, 6]}}, SUM),
    "lists of one name": ({"tests": {"input": ["1 2"], "output": ["3"]}}, SUM),
    "fn_name is null": ({"tests": {"fn_name": None, "inputs": ["1 2"], "outputs": ["3"]}}, SUM),
    "types of standard input": ({"tests": [{"type": "stdin_stdout", "input": "1 2", "output": "3"}]}, SUM),
    "testtype stdin": ({"tests": json.dumps([{"input": "1 2", "output": "3", "testtype": "stdin"}])}, SUM),
    "a JSON text in a JSON text": ({"tests": json.dumps(json.dumps([{"input": "1 2", "output": "3"}]))}, SUM),
    "lists below test_cases": ({"tests": {"test_cases": {"inputs": ["1 2"], "outputs": ["3"]}}}, SUM),
    "below test_cases": (
        {"tests": json.dumps({"language": "python", "test_cases": [{"type": "stdin", "input": "1 2", "output": "3"}]})},
        SUM,
    ),
    "two arguments, one a line": ({"tests": functional(*PAIRS)}, TWO_SUM),
    "a name in metadata": ({"tests": functional(*PAIRS), "metadata": '{"func_name": "twoSum"}'}, TWO_SUM),
    "a name in starter code": (
        {"tests": functional(("[[1, 2], [3, 4]]", "4")), "starter_code": "class Solution:\n    def area(self, grid):"},
        HELPED,
    ),
    "a helper beside the method": ({"tests": functional(("[[1, 2], [3, 4]]", "4"))}, HELPED),
    "one list as one argument": ({"tests": functional(('["a", "bcd"]', '"bcd"'))}, LONGEST),
    "one list as all arguments": ({"tests": functional(("[2, 3]", "8"))}, "def power(a, b):\n    return a ** b"),
    "a text as argument": ({"tests": functional(('"abc"', '"cba"'))}, "def turned(s):\n    return s[::-1]"),
    "true as Python writes it": ({"tests": functional(("3", "True"))}, "def odd(n):\n    return n % 2 == 1"),
    "a float is returned": ({"tests": functional(("[1, 2]", "1.50000"))}, "def mean(x):\n    return sum(x) / len(x)"),
    "no argument": ({"tests": functional(("", "7"))}, "def seven():\n    return 7"),
    "an argument of many lines": ({"tests": functional(("[\n 1,\n 2\n]", "3"))}, "def total(x):\n    return sum(x)"),
    "fn_name, wrapped outputs": (named([[[1, 2]], [[3]]], [[3], [3]]), "f = sum"),
    "fn_name, wrapped lists": (named([[[2, 1]]], [[[1, 2]]]), "f = sorted"),
    "fn_name, bare outputs": (named([["a", 2], ["b", 1]], ["aa", "b"]),
                              "def f(s, n):\n    return s * n"),
    "fn_name, bare lists": (named([[3], [1]], [[0, 1, 2], [0]]),
                            "def f(n):\n    return list(range(n))"),
    "fn_name, JSON texts": (named(["3\n4", "1\n1"], ["12", "1"]),
                            "def f(a, b):\n    return a * b"),
    "fn_name, as a method": (named([[[3, 3], 6]], [[[0, 1]]], "twoSum"), TWO_SUM),
    "fn_name in the row": ({"tests": {"inputs": [[4]], "outputs": [[2]], "type": "function_call"}, "fn_name": "half"},
                           "def other():\n    pass\ndef half(n):\n    return n // 2"),
    "a tuple for a list": (named([[7, 2]], [[[3, 1]]]), "f = divmod"),
    "keys are numbers": (named([["aab"]], [[{"a": 2, "b": 1}]]),
                         "from collections import Counter\ndef f(s):\n    return Counter(s)"),
    "function_call": ({"tests": [called([2, 3], 5, fn_name="add"), called([1, 1], 2, fn_name="add")]},
                      "def add(a, b):\n    return a + b"),
    "a cached function": ({"tests": functional(("30", "832040"))},
                          "@cache\ndef fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)"),
    "a static method": ({"tests": functional(("2\n5", "7"))},
                        "class Solution:\n    @staticmethod\n    def add(a, b):\n        return a + b"),
    "long integers": ({"tests": functional(("4000", '"1"'))}, "def first(n):\n    return str(10 ** (2 * n))[0]"),
}  # fmt: skip
WRONG: dict[str, tuple[dict[str, object], str, str]] = {
    "a method with a wrong value": (
        {"tests": functional(*PAIRS)}, TWO_SUM.replace("seen[target - x], i", "i, i"), "test 1 of 2: expected [1, 2]"),
    "another function's name": (
        named([[1]], [[1]]), "def g(x):\n    return x", "defines no function f"),
    "no function": ({"tests": functional(("1", "1"))}, "print(1)", "the program defines no function"),
    "no value": ({"tests": functional(("1", "1"))}, "def f(x):\n    print(x)", "returned None"),
    "the second of two": (
        named([[1], [2]], [[1], [2]]), "def f(x):\n    return 1", "test 2 of 2"),
    "text for a number": ({"tests": functional(("1", "1"))}, "def f(x):\n    return str(x)", "expected 1"),
    "an exception": ({"tests": functional(("0", "1"))}, "def f(x):\n    return 1 / x", "ZeroDivisionError"),
    "too many arguments": ({"tests": functional(("1\n2", "1"))}, "def f(x):\n    return x", "TypeError"),
    "an end": ({"tests": functional(("1", "1"))}, "import os\ndef f(x):\n    os._exit(0)", "ended with status 0"),
    "a name that is no function": (named([[1]], [[1]]), "f = 1", "not a function"),
    "equal to everything": (
        {"tests": functional(("1", "1"))},
        "class All:\n    def __eq__(self, other): return True\ndef f(x):\n    return All()", "expected 1"),
    "a patched comparison": (
        {"tests": functional(("1", "1"))},
        "import sys\nfor m in list(sys.modules.values()):\n    if hasattr(m, 'same_value'):\n"
        "        m.same_value = lambda *a: True\ndef f(x):\n    return 2", "expected 1"),
    "a forged list of functions": (
        {"tests": functional(("1", "1"))},
        "import sys\nsys.modules['outrider.verify.inside.calls'].functions_of = lambda m: 7\ndef f(x):\n    return 2",
        ""),
    "a list where none is wrapped": (
        named([[3], [1]], [[0, 1, 2], [0]]), "def f(n):\n    return 0", "expected [0"),
    "a program that reads where a function is asked for": (
        {"tests": functional(("1", "1"))}, "print(int(input()))", "loading the program: EOFError"),
    "a constant": ({"tests": {"inputs": ["1 2", "3 4"], "outputs": ["3", "7"]}}, "print(3)", "test 2 of 2"),
}  # fmt: skip


@needs_sandbox
@pytest.mark.parametrize("name", ROWS)
def test_a_right_program_passes_the_tests_in_each_shape(name):
    row, code = ROWS[name]
    found = verdict(Stdio(cpu_seconds=2), row, fenced(code))
    assert found.success, found.detail


@needs_sandbox
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_program_fails_them_and_the_detail_says_where(name):
    row, code, detail = WRONG[name]
    found = verdict(Stdio(cpu_seconds=2), row, fenced(code))
    assert (found.outcome, found.score) == (Outcome.INCORRECT, 0), found.detail
    assert detail in found.detail


@needs_sandbox
def test_the_reference_solution_of_calls_is_accepted():
    row = {"tests": functional(*PAIRS), "answer": TWO_SUM}
    problem = Problem("p", "", Stdio().reference(row, "answer"))
    assert json.loads(json.dumps(problem.answer)) == problem.answer, "plain JSON data"
    assert Stdio().verify(problem, Stdio().right(problem), True).success


@pytest.mark.parametrize(
    ("tests", "said"),
    [
        (None, r"holds no list of tests but null; wanted: a list of \{"),
        ("assert f(1) == 1", r"but \"assert f\(1\) == 1\", which is no JSON \(Expecting value.*wanted: a list"),
        ("eJxrYJly", "which is no JSON"),
        ([], r"no list of tests but \[\]"),
        ({"cases": []}, r'no list of tests but an object of \["cases"\]; wanted'),
        ({"inputs": ["1"]}, r'an object of \["inputs"\]'),
        ({"inputs": "1", "outputs": "1"}, r'an object of \["inputs", "outputs"\]'),
        ({"inputs": ["1", "2"], "outputs": ["1"]}, "holds 2 inputs and 1 outputs"),
        ([["1", "2"]], r'holds \["1", "2"\] as test 1, a test that is no object'),
        ([{"input": "1", "output": "1"}, "2"], r'holds "2" as test 2, a test'),
        (["assert f(1) == 1"], "no object with input and output; .* are those of the verifier unit_tests"),
        ([{"input": "1", "expected": "1"}], "test 1 of the field 'tests': no field 'output'"),
        ([{"input": None, "output": "1"}], "test 1 of the field 'tests': the field 'input' holds null"),
        ([{"input": [["1"]], "output": "1"}], r'input is \[\["1"\]\]; wanted: a text, a number, or a list of lines'),
        ([{"input": "1", "output": "1", "type": "interactive"}], '1 .* is of the type "interactive"; wanted: one of'),
        ([{"input": "1", "output": "1"}, *functional(("1", "1"))], "tests of both kinds"),
        (functional(("a b", "1")), r'test 1 .* calls a function with "a b"; wanted: a list of arguments, or'),
        (functional(("1", "null")), "expects any value, so a function that does nothing would pass"),
        ([{"fn_name": "f", "input": [1]}], "test 1 of the field 'tests': no field 'output'"),
        ({"inputs": ["1"], "outputs": [""]}, "expects any output, so a program that does nothing would pass"),
        ("[" * 10**5, "which is no JSON"),
    ],
)  # fmt: skip
def test_another_shape_is_refused_with_what_was_wanted_and_seen(tests, said):
    with pytest.raises(ValueError, match=said):
        read_tests({"tests": tests}, "tests")
