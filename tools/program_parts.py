"""Parts of which responses with programs are made, see :mod:`program_responses`."""

from __future__ import annotations

# How a polynomial with coefficients A, B, C may be computed: the body of a function of x.
BODIES = [
    "return A * x * x + B * x + C",
    "return (A * x + B) * x + C",
    "total = 0\nfor k in (A, B, C):\n    total = total * x + k\nreturn total",
    "import functools\nreturn functools.reduce(lambda t, k: t * x + k, [A, B, C], 0)",
    "def inner(ks):\n    return ks[0] + x * inner(ks[1:]) if ks else 0\nreturn inner([C, B, A])",
    "return sum(k * x ** i for i, k in enumerate((C, B, A)))",
    "try:\n    y = A * x ** 2\nfinally:\n    y += B * x + C\nreturn y",
    "match [A, B, C]:\n    case [a, b, c]:\n        return a * x * x + b * x + c",
    "from fractions import Fraction\nreturn int(Fraction(A * x * x + B * x + C))",
    "if (y := A * x * x) or True:\n    return y + B * x + C",
    "space = {'x': x}\nexec('y = A * x * x + B * x + C', space)\nreturn space['y']",
    "import threading\nfound = []\none = threading.Thread(target=lambda: found.append((A * x + B) * x + C))\n"
    "one.start()\none.join()\nreturn found[0]",
    "import os\nif os.fork() == 0:\n    os._exit(0)\nreturn (A * x + B) * x + C",
    "'''Doc.\n\n```\nreturn 0\n```\n'''\nreturn (A * x + B) * x + C",
    'text = """\n```python\nreturn 1\n```\n"""\nreturn (A * x + B) * x + C + 0 * len(text)',
    "# it's \"quoted\" ''' here\nreturn (A * x + B) * x + C  # ```",
]
WRONG_BODIES = [
    "return str((A * x + B) * x + C)",
    "return (A * x + B) * x + C + 1",
    "return (A * x + B) * x",
    "return [(A * x + B) * x + C]",
    "return (A * x + B) * x + C + 0.5",
    "return None",
    "pass",
    "raise ValueError(x)",
    "raise StopIteration",
    "return 1 / 0",
    "return f",
    "yield (A * x + B) * x + C",
    "return missing",
    "def again(n):\n    return again(n + 1)\nreturn again(0)",
    "class Any(int):\n    __eq__ = lambda *_: True\n    __hash__ = int.__hash__\nreturn Any(0)",
    "import os\nos.fork()\nreturn 0",
]
LIMIT_TESTER = """import ctypes, os
for which in range(16):
    ctypes.CDLL(None).syscall(302, os.getppid(), which, bytes(16), None)"""
# What a program may do to get away without an answer; behind it nothing is right.
HOSTILE = [
    "import sys\nsys.exit(0)",
    "import os\nos._exit(0)",
    "exit()",
    "import os\nos.kill(os.getpid(), 9)",
    "import os\nos.kill(os.getpid(), 15)",
    "import os, signal\nfor n in (9, 15, 2, 19, 24):\n    os.kill(os.getppid(), n)",
    "import os\nos.kill(-1, 9)",
    "import os\nos.abort()",
    "import ctypes\nctypes.string_at(0)",
    "import ctypes, os\nctypes.CDLL(None).ptrace(0, 0, 0, 0)\nos.kill(os.getpid(), 5)",
    LIMIT_TESTER,
    "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True:\n    pass",
    "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20))\nbytes(1 << 24)",
    "x = bytearray(1 << 40)",
    "held = []\nwhile True:\n    held.append(bytes(1 << 24))",
    "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        os._exit(3)",
    "import os\nos.closerange(0, 64)",
    "import os\nfor fd in range(64):\n    try:\n        os.write(fd, bytes(4096))\n    except OSError:\n        pass",
    "import os, sys\nfrom os import write\ndumps = sys.modules['outrider.verify.inside.plain'].dumps\n"
    "for value in (('value', 0), {'stage': 'passed'}):\n    data = dumps(value)\n    for fd in range(1, 64):\n"
    "        try:\n            write(fd, len(data).to_bytes(8, 'little') + data)\n"
    "        except OSError:\n            pass",
    "import atexit, os\natexit.register(os._exit, 0)",
    "import builtins\nbuiltins.AssertionError = Exception\nbuiltins.abs = builtins.len = lambda *_: 0",
    "import gc\nfor one in gc.get_objects():\n    if isinstance(one, dict):\n        one['passed'] = True",
    "import socket\nsocket.socket(40, 1).connect((2, 1))",
    "print('x' * (1 << 25))\nraise SystemExit(0)",
    "raise SystemExit",
    "raise KeyboardInterrupt",
    "import sys\nsys.setrecursionlimit(10 ** 9)\ndef down(n): return down(n + 1)\ndown(0)",
    "x = []\nfor _ in range(10 ** 5): x = [x]\nprint(x)",
    "import os\nos.rename('/tmp', '/lib')",
    "import os, shutil\nshutil.rmtree('/tmp', ignore_errors=True)\nos.symlink('/dev/zero', '/tmp/solution.py')",
    "(" * 5000,
    "\0",
    "# -*- coding: rot13 -*-\ncevag(1)",
    "class Slow(dict):\n    def items(self): return [(i * (2 ** 61 - 1), 0) for i in range(1, 20000)]\nprint(Slow())",
]
WAITING = [
    "import time\ntime.sleep(100)",
    "import os\nos.kill(os.getpid(), 19)",
    "import threading\nthreading.Event().wait()",
    "import os, time\nif os.fork() == 0:\n    time.sleep(100)\nos.wait()",
    "import time\nwhile True:\n    time.sleep(0.005)",
]
NOISE = [
    "import collections, itertools, math",
    "LIMIT = 10 ** 9 + 7",
    "def helper(*values):\n    '''Adds.'''\n    return sum(values)",
    "class Node:\n    def __init__(self, value=0):\n        self.value = value",
    "# don't",
    '"""\n```text\nnot the end\n```\n"""',
    "assert True",
    "from typing import List, Optional",
    "try:\n    import numpy\nexcept ImportError:\n    numpy = None",
    "if __name__ == '__main__' and False:\n    print('never')",
]
# How a program without a function to test reads its number and prints what it finds.
MAINS = [
    "print(answer_for(int(input())))",
    "import sys\nfor line in sys.stdin.read().split():\n    print(answer_for(int(line)), end=' \\n')",
    "def main():\n    print(answer_for(int(open(0).readline())), flush=True)\nif __name__ == '__main__':\n    main()",
    "import threading\nthreading.stack_size(1 << 26)\none = lambda: print(answer_for(int(input())))\n"
    "threading.Thread(target=one).start()",
    "assert open(__file__).read()\nprint(answer_for(int(input())))",
]
# What a program may try without getting anywhere, before it is right all the same.
IN_VAIN = [
    LIMIT_TESTER,
    "import os\nfor number in (9, 15, 2, 19):\n    os.kill(os.getppid(), number)",
    "import os\ntry:\n    os.kill(-1, 9)\nexcept OSError:\n    pass",
    "import builtins\nbuiltins.AssertionError = Exception",
    "import os\nif os.fork() == 0:\n    os._exit(1)",
    "import os\nif os.fork() == 0:\n    os.kill(os.getpid(), 9)",
    "import threading, time\nthreading.Thread(target=time.sleep, args=(100,), daemon=True).start()",
    "import sys\nsys.stderr.write('x' * 10 ** 5)",
]
# Marks of Python behind a fence, and of what is no Python.
MARKS = [
    "python",
    "Python",
    "py",
    "python3",
    "python3.11",
    "{.python}",
    "{.python .numberLines}",
    "python:main.py",
    " python",
]
OTHERS = ["text", "bash", "c++", "json", "{.bash}", "pycon", "output"]
# What programs and responses consist of.
FRAGMENTS = [
    *"()[]{}:=,.'\"\\#`~ \n\t\r\0",
    "```",
    "```python\n",
    "\n```\n",
    "~~~",
    '"""',
    "'''",
    "    ",
    "def f(x):\n",
    "return 0",
]
FRAGMENTS += [
    "- ",
    "1. ",
    "lambda: ",
    "import os\n",
    "print(0)\n",
    "class A:\n",
    "\ud800",
    "\u2028",
    "\x0c",
    "\x1a",
    "é",
    "\U0001d7d9",
    "9" * 5000,
]
