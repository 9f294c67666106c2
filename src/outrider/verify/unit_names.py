"""Finds the names that tests of functions need from the tested program, by reading the tests without running them."""

from __future__ import annotations

import ast
import builtins
import symtable
import sys
from collections.abc import Iterator
from typing import Any


def plan(prefix: str, setup: list[str], tests: list[str], entry_point: str, solution: str) -> dict[str, Any]:
    """Prepare the tests for the sandbox (see :func:`outrider.verify.inside.unit.verify_tests`).

    A name that the tests use is taken from the tests if they define it. Otherwise, the name is taken from the program
    in three cases: it is ``entry_point``, the prefix contains only its signature, or the reference solution defines it
    and the prefix does not. The next sources are complete definitions in the prefix, the built-ins, and the modules of
    the standard library. The last source is the program. Therefore, a program cannot change a test by redefining
    ``check``, a helper function that the prefix defines, or a built-in such as ``abs`` (unless the reference solution
    redefines the built-in too).

    Args:
        prefix: code that the response continues; its complete definitions are trusted.
        setup: statements to run before the tests.
        tests: the tests, as statements.
        entry_point: name of the function that the tests' function ``check`` receives; empty if the tests have no
            ``check``.
        solution: a whole program that passes the tests; empty if there is none.

    Raises:
        ValueError: prefix, setup or tests are not Python, or ``check`` is missing.

    >>> planned = plan("", [], ["assert f(2) == math.sqrt(abs(-16))"], "", "")
    >>> planned["names"], planned["modules"]
    (['f'], ['math'])
    """
    statements = [*setup, *tests]
    own: set[str] = set()
    used: set[str] = set()
    for number, statement in enumerate(statements):
        if number < len(setup) or len(tests) == 1:
            label = "the setup" if number < len(setup) else "the tests"
        else:
            label = f"test {number - len(setup) + 1}"
        table = _table(statement, label)
        own |= {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported() or s.is_namespace()}
        used |= {s.get_name() for t in _tables(table) for s in t.get_symbols() if s.is_referenced() and s.is_global()}
        used |= {s.get_name() for s in table.get_symbols() if s.is_referenced()}
    if entry_point:
        if "check" not in own:
            raise ValueError("the tests define no check()")
        statements.append(f"check({entry_point})")
        used.add(entry_point)
    runnable = _runnable(prefix)
    complete, stubs, imported = _definitions(runnable, "the prefix")
    written, _, _ = _definitions(solution, "the solution")
    complete |= imported
    theirs = (used - own) & (stubs | (written - complete) | {entry_point})
    rest = used - own - theirs - complete - set(dir(builtins))
    modules = rest & sys.stdlib_module_names
    return {
        "prefix": runnable,
        "modules": sorted(modules),
        "names": sorted(theirs | (rest - modules)),
        "setup": len(setup),
        "tests": statements,
    }


def whole_program(prefix: str, solution: str) -> str | None:
    r"""Return the reference solution as a standalone program; None if it is not Python.

    The solution may be a whole program, code that continues the prefix, or the body of the prefix's last function. In
    some data sets, the prefix and the solution have different indentation.

    >>> print(whole_program("def f(x):\n    'Doubles.'\n", "  return 2 * x"))
    def f(x):
      return 2 * x
    """
    heads = [prefix]
    if prefix and _parses(prefix):
        *_, last = [None, *(node for node in ast.parse(prefix).body if isinstance(node, ast.FunctionDef))]
        if last is not None and all(map(_says_nothing, last.body)):
            heads.append("".join(prefix.splitlines(keepends=True)[: last.body[0].lineno - 1]))
    return next((head + solution for head in (*heads, "") if _parses(head + solution)), None)


def _parses(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError):  # ValueError: a null byte
        return False
    return True


def _table(statement: str, label: str) -> symtable.SymbolTable:
    try:
        return symtable.symtable(statement, label, "exec")
    except (SyntaxError, ValueError) as error:  # ValueError: a null byte
        raise ValueError(f"{label} cannot be read as Python: {error}") from error


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _tables(child)


def _runnable(code: str) -> str:
    """Return the code, with a body if the code ends with the signature of a function."""
    return next((code + end for end in ("", "\n    pass\n") if _parses(code + end)), code)


def _definitions(code: str, label: str) -> tuple[set[str], set[str], set[str]]:
    """Return three sets of names: the names that the code defines at top level, the functions for which the code
    contains only the head, and the imports."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{label} cannot be read as Python: {error}") from error
    complete: set[str] = set()
    stubs: set[str] = set()
    imported: set[str] = set()
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                (stubs if all(map(_says_nothing, node.body)) else complete).add(node.name)
            case ast.ClassDef():
                complete.add(node.name)
            case ast.Import() | ast.ImportFrom():
                imported |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
            case ast.Assign() | ast.AnnAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                complete |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    return complete, stubs - complete, imported


def _says_nothing(node: ast.stmt) -> bool:
    """Return whether a statement is a docstring, ``pass`` or ``…``."""
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
