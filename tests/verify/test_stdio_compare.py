"""Printed numbers are compared as numbers, everything else exactly: programs as models write them, right and wrong."""

from __future__ import annotations

import math

import pytest
from programs import MBPP, fenced, needs_sandbox, verdict

from outrider.record import Outcome
from outrider.verify.code import Compare, Stdio
from outrider.verify.inside.compare import same_token, same_value

HEAD = "data = open(0).read().split()\n"
RIGHT = [  # what the program is told, what it prints, what is expected
    ("mean of three, six places", "3 1 2 4", "n, *x = map(int, data)\nprint(f'{sum(x) / n:.6f}')", "2.33333333333333"),
    ("square root, all places", "2", "print(int(data[0]) ** 0.5)", "1.414214"),
    ("circle's area, %.10f", "10", "import math\nprint('%.10f' % (math.pi * 100))", "314.159265"),
    ("a large sum, relative", "", "print(123456789.0)", "123456789.4"),
    ("small numbers in scientific writing", "", "print(1e-05)", "0.00001"),
    ("expected in scientific writing", "", "print('1234500.000')", "1.2345e+06"),
    ("capital E", "", "print('2.5E3')", "2500.0"),
    ("division of integers", "12 4", "a, b = map(int, data)\nprint(a / b)", "3"),
    ("a long even division", "", "print(10 ** 15 / 2)", "500000000000000"),
    ("minus nothing", "", "print(-0.0)", "0"),
    ("minus nothing, rounded", "", "print('%.2f' % -0.001)", "0.00"),
    ("no zero before the point", "", "print('.5')", "0.5"),
    ("nothing behind the point", "", "print('5.')", "5"),
    ("zeros at the end", "", "print('2.50')", "2.5"),
    ("numbers among words", "", "print('Case #1: 0.6666667')", "Case #1: 0.66666666"),
    ("a rounding upwards", "", "print('%.3f' % 0.9999999)", "0.9999999"),
    ("windows line ends and blank lines", "", "print('1 2 \\r\\n\\r\\n3', end='')", "1 2\n3\n"),
    ("twenty digits", "", "print(2 ** 64)", "18446744073709551616"),
    ("five thousand digits", "", "print(10 ** 5000 + 7)", "1" + "0" * 4999 + "7"),
    ("reads five thousand digits", "9" * 5000, "print(int(data[0]) + 1)", "1" + "0" * 5000),
    ("a factorial's digits", "2000", "import math\nprint(len(str(math.factorial(int(data[0])))))", "5736"),
    ("not a number, as expected", "", "print(float('nan'))", "nan"),
    ("infinite, as expected", "", "print(float('inf'), -float('inf'))", "inf -inf"),
    ("a time", "", "print('07:05')", "07:05"),
    ("binary digits", "", "print('0011')", "0011"),
]  # fmt: skip
WRONG = [
    ("two places where six are asked for", "", "print('%.2f' % (1 / 3))", "0.333333"),
    ("floor division", "", "print(7 // 2)", "3.5"),
    ("an integer that is nearly met", "", "print(7.0000001)", "7"),
    ("a float for a long integer", "", "print(float(10 ** 18 + 1))", "1000000000000000001"),
    ("the last of twenty digits", "", "print(2 ** 64 + 1)", "18446744073709551616"),
    ("an agent's number", "", "print(7)", "007"),
    ("zeros before a number", "", "print('007')", "7"),
    ("binary digits as a number", "", "print(11)", "0011"),
    ("other zeros", "", "print('00.5')", "0.5"),
    ("the other sign", "", "print(-0.5)", "0.5"),
    ("a plus sign", "", "print('+5')", "5"),
    ("commas between thousands", "", "print(f'{1234567:,}')", "1234567"),
    ("underscores", "", "print('1_000')", "1000"),
    ("a decimal comma", "", "print('0,5')", "0.5"),
    ("a fraction", "", "from fractions import Fraction\nprint(Fraction(1, 2))", "0.5"),
    ("per cent", "", "print('50%')", "0.5"),
    ("digits of another script", "", "print('٣')", "3"),
    ("a superscript", "", "print('\\u00b2')", "2"),
    ("hexadecimal", "", "print(hex(16))", "16"),
    ("infinite where a number is due", "", "print(float('inf'))", "1e308"),
    ("beyond all floats", "", "print('1e999')", "2e999"),
    ("not a number where one is due", "", "print(float('nan'))", "0.0"),
    ("a number where none is due", "", "print(0.0)", "nan"),
    ("too many numbers", "", "print(0.5, 0.5)", "0.5"),
    ("too few numbers", "", "print(0.5)", "0.5 0.5"),
    ("another order", "", "print(2.0, 1.0)", "1.0 2.0"),
    ("a word in another case", "", "print('Yes')", "YES"),
    ("true", "", "print(True)", "1"),
    ("a list as Python writes it", "", "print([1.0, 2.0])", "1.0 2.0"),
    ("parts of a date", "", "print('2024-1-5')", "2024-01-05"),
]  # fmt: skip


@needs_sandbox
@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case[0])
def test_the_same_number_is_right_however_it_is_written(case):
    _, given, code, expected = case
    found = verdict(Stdio(), {"tests": [{"input": given, "output": expected}]}, fenced(HEAD + code))
    assert found.success, found.detail


@needs_sandbox
@pytest.mark.parametrize("case", WRONG, ids=lambda case: case[0])
def test_another_number_or_text_is_wrong(case):
    _, given, code, expected = case
    found = verdict(Stdio(), {"tests": [{"input": given, "output": expected}]}, fenced(HEAD + code))
    assert found.outcome is Outcome.INCORRECT, found.detail


@needs_sandbox
def test_functions_and_their_tests_may_write_long_integers():
    row = {"test_list": ["assert len(str(power(6000))) == 6001", "assert digits(power(5000)) == 5001"], "answer": None}
    code = "def power(n):\n    return 10 ** n\ndef digits(n):\n    return len(str(n))"
    found = verdict(MBPP, row, fenced(code))
    assert found.success, found.detail
    found = verdict(MBPP, row, fenced(code.replace("10 **", "9 **")))
    assert "power(6000) returned <int too large to write>" in found.detail


@pytest.mark.parametrize(
    ("options", "seen", "expected", "same"),
    [
        ({"tolerance": None}, "3.0", "3", False),
        ({"tolerance": None}, "3", "3", True),
        ({"tolerance": 0}, "3.0", "3", True),
        ({"tolerance": 0}, "0.5000", ".5", True),
        ({"tolerance": 0}, "0.3333333", "0.33333333", False),
        ({"tolerance": 0.01}, "0.333", "0.33", True),
        ({"tolerance": 0.01}, "99.5", "100.0", True),
        ({"tolerance": 0.01}, "98.5", "100.0", False),
        ({"tolerance": 0.01}, "100.5", "100", False),
        ({"tolerance": 1e-9}, "0.3333333", "0.333333333333", False),
        ({"case": False}, "Yes", "YES", True),
        ({"case": False}, "Yes", "NO", False),
        ({"case": False}, "NaN", "nan", True),
    ],
)  # fmt: skip
def test_the_options_say_what_is_the_same(options, seen, expected, same):
    how = Compare(**options)
    assert same_token(seen, expected, how.tolerance, how.case) is same


@needs_sandbox
def test_the_options_reach_the_verdict():
    row = {"tests": [{"input": "", "output": "YES 0.5"}]}
    lenient = Stdio.model_validate({"compare": {"tolerance": 0.1, "case": False}})
    assert verdict(lenient, row, fenced("print('yes', 0.45)")).success
    assert not verdict(Stdio(), row, fenced("print('YES', 0.45)")).success


@pytest.mark.parametrize("tolerance", [-1, math.nan, math.inf])
def test_a_tolerance_is_a_number_from_0_on(tolerance):
    with pytest.raises(ValueError, match="tolerance"):
        Compare(tolerance=tolerance)


@pytest.mark.parametrize(
    ("seen", "expected", "same"),
    [
        ([0.1 + 0.2, 1], [0.3, 1], True),
        ((1, (2, 3)), [1, [2, 3]], True),
        ([1, 2], [2, 1], False),
        ([1], [1, 1], False),
        ({1: "a", 2: [0.5]}, {"1": "a", "2": [0.5000001]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({1}, [1], False),
        ("0.5", 0.5, False),
        (0.5, "0.5", False),
        (3.0, 3, True),
        (3.0000001, 3, False),
        (3, 3.0, True),
        (10**400, 1e300, False),
        (True, True, True),
        (False, None, False),
        (None, None, True),
        (None, 0, False),
        (math.nan, math.nan, True),
        (math.nan, 0.0, False),
        (math.inf, math.inf, True),
        (math.inf, 1e300, False),
        ("Abc", "abc", False),
        ([], {}, False),
        (1j, 1, False),
    ],
)  # fmt: skip
def test_returned_values_are_compared_as_json_has_them(seen, expected, same):
    assert same_value(seen, expected, 1e-6, True) is same
