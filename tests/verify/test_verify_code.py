"""Verifying programs: right ones are accepted, wrong ones and those that try to trick the verifier are not."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
from programs import ECHO, MBPP, ROW, SUMS, fenced, needs_sandbox, verdict

from outrider.record import Outcome, Problem
from outrider.tasks import Table
from outrider.verify.code import UnitTests
from outrider.verify.program import program_of
from outrider.verify.unit_names import plan, whole_program

pytestmark = needs_sandbox

DATA = Path(__file__).parents[3] / "shared" / "data"

HUMANEVAL = {
    "problem": "import math\n\ndef poly(x):\n    return x * x - 9\n\ndef root(start):\n    ''' a zero of poly '''\n",
    "answer": "    return 3.0\n",
    "entry_point": "root",
    "test": "def check(candidate):\n    for at in range(3):\n        assert math.fabs(poly(candidate(at))) < 1e-4\n",
}
PREFIXED = UnitTests(prefix="problem", entry_point="entry_point")
COMPLETION = PREFIXED.model_copy(update={"code": "completion"})


BROKEN = "test 1 of 2: ended with status 1: ValueError: invalid literal for int() with base 10: ''"


def test_the_reference_is_accepted():
    for verifier, row in ((MBPP, ROW), (PREFIXED, HUMANEVAL), (COMPLETION, HUMANEVAL)):
        problem = Problem("p", "", verifier.reference(row, "answer"))
        assert json.loads(json.dumps(problem.answer)) == problem.answer, "plain JSON data"
        assert verifier.verify(problem, verifier.right(problem), True).success


def test_a_wrong_function_is_incorrect_and_says_where():
    found = verdict(MBPP, ROW, fenced("def add(a, b):\n    return a * b"))
    assert (found.outcome, found.score) == (Outcome.INCORRECT, 0)
    assert found.detail == "test 1 of 4: AssertionError; assert add(2, 3) == 5; add(2, 3) returned 6"
    assert found.answer.startswith("def add")


CHEATS = {
    "says so": "print('all tests passed')\nprint('OK')\ndef add(a, b):\n    print('all tests passed')",
    "sys.exit at once": "import sys\nsys.exit(0)",
    "sys.exit when called": "import sys\ndef add(a, b):\n    sys.exit(0)",
    "os._exit at once": "import os\nos._exit(0)",
    "os._exit when called": "import os\ndef add(a, b):\n    os._exit(0)",
    "always equal": """
class Any(int):
    def __eq__(self, other): return True
    def __lt__(self, other): return True
    def __sub__(self, other): return self
    __hash__ = int.__hash__
    __class__ = str
def add(a, b): return Any()""",
    "always equal, no number": """
class Any:
    def __eq__(self, other): return True
    def __getattr__(self, name): return lambda *a: True
def add(a, b): return Any()""",
    "patched assert and built-ins": """
import builtins, sys
class AssertionError(Exception): pass
builtins.AssertionError = Exception
for name in ('abs', 'set', 'len', 'isinstance'):
    setattr(builtins, name, lambda *a: 0); globals()[name] = lambda *a: 0
sys.excepthook = lambda *a: None
def add(a, b): return 5""",
    "patched harness": """
import sys
for name, module in list(sys.modules.items()):
    if name.endswith(('.unit', '.guest', '.programs')):
        for key in list(vars(module)):
            if callable(vars(module)[key]) and key not in ('dumps', 'loads'):
                setattr(module, key, lambda *a, **k: {'stage': 'passed'})
def add(a, b): return 5""",
    "exit handlers": "import atexit, os\natexit.register(print, 'passed')\natexit.register(os._exit, 0)\nexit(0)",
    "forged messages": """
import os, sys
dumps = sys.modules['outrider.verify.inside.plain'].dumps
for message in (('value', 5), {'stage': 'passed'}, ('value', None)):
    data = dumps(message)
    for fd in range(3, 64):
        try: os.write(fd, len(data).to_bytes(8, 'little') + data)
        except OSError: pass
def add(a, b): return 5""",
    "looks for the tests": """
import gc, os, sys
def has(text): return ''.join(reversed('teloiv')) in text  # a word of the tests, which is not held itself
frame, found = sys._getframe(), 0
for thing in gc.get_objects():
    parts = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, (list, tuple)) else ()
    found += any(isinstance(part, str) and has(part) for part in list(parts))
while frame:
    found += has(str(frame.f_locals))
    frame = frame.f_back
for top in ('/tmp', '/home', '/proc', '/dev/shm', '/etc'):
    for folder, _, files in os.walk(top):
        for name in files:
            try: found += has(open(os.path.join(folder, name), errors='replace').read(1 << 20))
            except OSError: pass
def add(a, b): return a + b if found else None""",
    "a message too large": "def add(a, b): return 'x' * (9 << 20)",
    "a value nested too deep": "def add(a, b):\n    x = []\n    for _ in range(10**5): x = [x]\n    return x",
    "a traced parent": """
import ctypes, os
libc = ctypes.CDLL(None)
one = (ctypes.c_uint64 * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8)
done = libc.ptrace(16, os.getppid(), 0, 0), libc.process_vm_readv(os.getppid(), one, 1, one, 1, 0)
def add(a, b): return None if done == (-1, -1) else a + b""",
    "no such function": "def sub(a, b): return a - b",
    "no Python": "def add(a, b) return a + b",
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_trick_does_not_score(cheat):
    found = verdict(MBPP, ROW, fenced(CHEATS[cheat]))
    assert found.outcome is Outcome.INCORRECT, found.detail
    assert found.score == 0
    if cheat in ("looks for the tests", "a traced parent"):
        assert found.detail.endswith("add(2, 3) returned None"), "it has looked everywhere, and found nothing"


@pytest.mark.parametrize("error", ["StopIteration", "StopAsyncIteration", "GeneratorExit"])
def test_an_exception_that_ends_a_loop_of_the_tests_is_a_failure(error):
    tests = ["for seen, right in zip(map(f, [1, 2]), [2, 3]):\n    assert seen == right", "assert all(map(f, [1]))"]
    found = verdict(MBPP, {"test_list": tests, "answer": None}, fenced(f"def f(x): raise {error}"))
    assert found.outcome is Outcome.INCORRECT, found.detail


def test_what_the_prompt_defines_stays_as_it_is():
    """The tests of this row call a helper of the prompt; a program that defines it anew changes nothing."""
    trick = "def poly(x):\n    return 0\ndef check(candidate):\n    pass\ndef root(start):\n    return 17"
    found = verdict(PREFIXED, HUMANEVAL, fenced(trick))
    assert found.outcome is Outcome.INCORRECT
    assert "root(0) returned 17" in found.detail


BODY = "    return 3.0\n"
FUTURE = "from __future__ import annotations\n"
ANNOTATED = {
    **HUMANEVAL,
    "problem": FUTURE + "def poly(x):\n    return x * x - 9\ndef root(start: Unknown):\n    'Doc.'",
}


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (HUMANEVAL, f"{FUTURE}def root(start: Unknown):\n{BODY}"),
        (HUMANEVAL, f'"""Doc."""\n{FUTURE}import math\ndef root(start):\n{BODY}'),
        (HUMANEVAL, BODY),
        (HUMANEVAL, f"# So:\n{BODY}"),
        (HUMANEVAL, f"    x = poly(3)\n    if x:\n    {BODY}    return math.floor(3.5)"),
        (ANNOTATED, BODY),
        (ANNOTATED, f"def root(start: Unknown):\n{BODY}"),
    ],
)
def test_a_block_stands_alone_behind_its_prefix_or_continues_it(row, code):
    found = verdict(PREFIXED, row, fenced(code))
    assert found.success, found.detail


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="from 3.14 on Python reads annotations when they are asked for")
def test_annotations_are_read_as_python_reads_them():
    found = verdict(MBPP, ROW, fenced("def add(a: Unknown, b): return a + b"))
    assert "NameError: name 'Unknown' is not defined" in found.detail
    assert verdict(MBPP, ROW, fenced(f"{FUTURE}def add(a: Unknown, b): return a + b")).success


def test_a_program_can_read_itself():
    code = """# 3
import inspect, os, sys
def three(): return 3
assert os.path.isabs(__file__) and os.path.basename(__file__) == os.path.basename(sys.argv[0]) == "solution.py"
assert "def three" in inspect.getsource(three)
lines = open(__file__).read().splitlines()
print(int(lines[0][1:]) if input() == "1 2" else 9)
os.unlink(__file__)
os.mkdir(__file__)
"""
    found = verdict(ECHO, SUMS, fenced(code))
    assert "test 2 of 2: ended with status 1" in found.detail, "it has made a folder of it"
    found = verdict(ECHO, SUMS, fenced(code[: code.index("os.unlink")]))
    assert found.success, found.detail
    code = "def add(a, b):\n    return a + b if open(__file__).read().startswith('def add') else 0"
    found = verdict(MBPP, ROW, fenced(code))
    assert found.success, found.detail


def test_a_function_gets_copies():
    row = {"test_list": ["x = [1, 2]\nassert total(x) == sum(x)"], "answer": None}
    assert verdict(MBPP, row, fenced("def total(x):\n    x.clear()\n    return 0")).outcome is Outcome.INCORRECT


def test_objects_of_the_program_can_be_used_by_tests():
    row = {
        "test_list": [
            "assert depth(root) == 2",
            "assert longest([Pair(1, 2), Pair(1, 5)]) == 4",
            "assert sum(odd(4)) == 4",
        ],
        "setup": "root = Node(1)\nroot.left = Node(2)\nroot.left.left = None",
        "answer": None,
    }
    code = """
class Node:
    def __init__(self, value): self.value, self.left = value, None
class Pair:
    def __init__(self, a, b): self.a, self.b = a, b
def depth(node): return 0 if node is None else 1 + depth(node.left)
def longest(pairs): return max(p.b - p.a for p in pairs)
def odd(n): return (i for i in range(n) if i % 2)
"""
    found = verdict(MBPP.model_copy(update={"setup": "setup"}), row, fenced(code))
    assert found.success, found.detail


@pytest.mark.parametrize(
    ("code", "outcome", "detail"),
    [
        ("print(sum(map(int, input().split())))", Outcome.CORRECT, "2 tests"),
        ("print(3)", Outcome.INCORRECT, "test 2 of 2: token 1 is 3, not 9"),
        ("print(*[sum(map(int, input().split()))] * 2)", Outcome.INCORRECT, "test 1 of 2: token 2 is 3, not the end"),
        ("pass", Outcome.INCORRECT, "test 1 of 2: token 1 is the end, not 3"),
        ("print(3, flush=True)\nint('')", Outcome.INCORRECT, BROKEN),
        ("import os\nprint(3)\nos._exit(0)", Outcome.INCORRECT, "test 1 of 2: token 1 is the end, not 3"),
        ("while True: print('x' * 10 ** 6)", Outcome.INCORRECT, "test 1 of 2: wrote more than the limit of output"),
        ("import sys\nprint('all tests passed'); sys.exit(0)", Outcome.INCORRECT, "test 1 of 2: token 1 is all, not 3"),
    ],
)  # fmt: skip
def test_output_is_compared_token_by_token(code, outcome, detail):
    found = verdict(ECHO, SUMS, fenced(code))
    assert (found.outcome, found.detail) == (outcome, detail)


@pytest.mark.parametrize(
    ("text", "finished", "program"),
    [
        ("```python\na\n```\n```py\nb\n```", True, "b\n"),
        ("```\na\n```\n```bash\nb\n```", True, "a\n"),
        ("```python\na\n```\n```\nits output\n```", True, "a\n"),
        ("````python\na = '''\n```\n'''\n````", True, "a = '''\n```\n'''\n"),
        ("```python\na\n```\n```python\nb", False, "a\n"),
        ("```python\na\n```\n```python\nb", True, "b"),
        ("```python\nb", False, None),
        ("```python\n\n```", True, None),
        ("no code, 42", True, None),
        ("", True, None),
    ],
)
def test_the_last_python_block_is_the_program(text, finished, program):
    assert program_of(text, finished, "block") == program


F = "def f(x):\n    return x\n"
DOCSTRING = """def f(x):
    '''
    Example:
    ```
    f(1)
    ```
    ```python
    f(2)
    ```
    '''
    return x
"""


def listed(code: str, first: str, rest: str) -> str:
    lines = f"```python\n{code}```".split("\n")
    return f"Steps:\n\n{first}{lines[0]}\n" + "\n".join(f"{rest}{line}" for line in lines[1:]) + "\n\n2. Done.\n"


@pytest.mark.parametrize(
    ("text", "program"),
    [
        (listed(F, "1. So:\n   ", "   "), F),
        (listed(F, "1. ", "   "), F),
        (listed(F, "  - ", "    "), F),
        (listed(F, "10) * ", "      "), F),
        (listed(F, "\t", "\t"), F),
        (listed(DOCSTRING, "1. ", "   "), DOCSTRING),
        (f"```python\n{DOCSTRING}```\n", DOCSTRING),
        (f"```\n{DOCSTRING}```\nIts output:\n```text\n1\n```\n", DOCSTRING),
        (f"~~~~py\n{DOCSTRING}~~~~", DOCSTRING),
        (f'```python\n"""\n```\nf(1)\n```\n"""\n{F}```', f'"""\n```\nf(1)\n```\n"""\n{F}'),
        (f'```python\nbroken = """\n```\nNo, rather:\n```python\n"""Doc."""\n{F}```', f'"""Doc."""\n{F}'),
        (f"```python\n# don't say \''' or a ``` yet\n{F}```\nDon't.", f"# don't say \''' or a ``` yet\n{F}"),
        (f"```python\nx = '\\\''''\n{F}```\n```text\n1\n```", f"x = '\\\''''\n{F}"),
        *((f"```{mark}\n{F}```\n```bash\nls\n```", F) for mark in (
            "{.python}", "{.python .numberLines startFrom=1}", "{#one .python}", "{python}", "{python, echo=TRUE}",
            " python ", "Python3", "python3.11", "py", "python:solution.py", 'py title="a b"', "ipython",
        )),
        *((f"```{mark}\nx\n```", None) for mark in ("pycon", "python2", "{.bash}", "pyrex", "c++", "text")),
        (f"```python\r\n{F}```\r\nDone.", F),
        (f"```python\n\ufeff{F}```", F),
    ],
)  # fmt: skip
def test_a_block_is_read_as_markdown_has_it(text, program):
    assert program_of(text, True, "block") == program


def test_a_response_of_fences_and_quotes_alone_is_read_in_no_time():
    for part in ('```\n"""\n', "```python\n'''\n```\n", '```python\n\\"""\n', "- 1. ```\n", "'" * 7 + "\n", "\\\n"):
        start = time.process_time()
        program_of(part * (200_000 // len(part)), True, "block")
        assert time.process_time() - start < 2, part


def test_no_program_is_unparseable():
    assert verdict(MBPP, ROW, "def add(a, b): return a + b").outcome is Outcome.UNPARSEABLE
    assert verdict(MBPP, ROW, "```python\ndef add", False).detail == "truncated before the end of a program"


def test_any_text_is_a_verdict():
    for text in ("\ud800", "\0", "(" * 10**5, "9" * 10**5, "x = " + "-" * 10**5 + "1"):
        assert verdict(ECHO, SUMS, fenced(text)).outcome is Outcome.INCORRECT


@pytest.mark.parametrize(
    ("verifier", "row", "reason"),
    [
        (MBPP, {"answer": "x"}, "holds no|no field"),
        (MBPP, {"test_list": []}, "holds no tests"),
        (MBPP, {"test_list": ["f(1)"]}, "assert nothing"),
        (MBPP, {"test_list": ["assert f(1", "assert True"]}, "test 1 cannot be read as Python"),
        (PREFIXED, {**HUMANEVAL, "test": "assert root(1) == 3"}, r"define no check\(\)"),
        (PREFIXED, {**HUMANEVAL, "problem": "Write a root."}, "the prefix cannot be read as Python"),
        (ECHO, {"tests": []}, "holds no list of tests"),
        (ECHO, {"tests": ["1"]}, "no object with input and output"),
        (ECHO, {"tests": [{"input": "1", "output": " \n"}]}, "a program that does nothing would pass"),
        (ECHO, {"tests": [{"input": "1"}]}, "no field 'output'"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_verified_says_why(verifier, row, reason):
    with pytest.raises(ValueError, match=reason):
        verifier.reference(row, "answer")


def test_names_come_from_who_may_define_them():
    solution = "import sys\ndef sum(a, b):\n    return 1\n"
    found = plan("", [], ["x = sum(1, 2)\nassert abs(x) == sys.maxsize and len(str(x))"], "", solution)
    assert (found["names"], found["modules"]) == (["sum"], ["sys"])
    prefix = "import math\ndef helper(x):\n    return x\ndef f(x):\n    'Doc.'\n"
    found = plan(prefix, [], ["def check(candidate):\n    assert candidate(helper(1)) == math.pi"], "f", "")
    assert (found["names"], found["modules"]) == (["f"], [])


def test_a_solution_stands_alone_however_it_is_indented():
    prefix = "K = 1\ndef f(x):\n    '''\n    Doc.\n    '''\n"
    for solution in ("    return x\n", "  return x\n", "\treturn x\ndef g():\n\tpass\n", "def f(x):\n  return x\n"):
        whole = whole_program(prefix, solution)
        space: dict[str, object] = {}
        exec(whole, space)
        assert space["f"](5) == 5
    assert whole_program("", "f(x) = x") is None


def some(name: str, every: int) -> list[dict]:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"needs {path}")
    return [json.loads(line) for line in path.read_text().splitlines()][::every]


@pytest.mark.parametrize(
    ("name", "every", "verifier"),
    [
        ("humaneval/test.jsonl", 41, COMPLETION),  # 0, 41, 82, 123
        ("mbpp/all.jsonl", 240, MBPP),
        ("mbpp_sanitized/all.jsonl", 107, PREFIXED),
    ],
)
def test_references_of_public_sets_are_accepted(name, every, verifier):
    for row in some(name, every):
        problem = Problem(row["id"], "", verifier.reference(row, "answer"))
        found = verifier.verify(problem, verifier.right(problem), True)
        assert found.success, (row["id"], found.detail)


def test_a_table_is_verified_in_the_pool(tmp_path):
    files = {}
    for side in ("train", "heldout"):
        path = tmp_path / f"{side}.jsonl"
        path.write_text(json.dumps({"problem": f"Write add, {side}.", **ROW}) + "\n")
        files[f"{side}_data"] = str(path)
    task = Table(**files, verifier={"unit_tests": {"tests": "test_list", "workers": 2}})
    try:
        texts = [fenced(ROW["answer"]), fenced("import os\nos._exit(0)"), "none"]
        found = task.verify_all([(task.train(0), text, True) for text in texts])
        assert [v.outcome for v in found] == [Outcome.CORRECT, Outcome.INCORRECT, Outcome.UNPARSEABLE]
    finally:
        task.close()
