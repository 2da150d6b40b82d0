"""Which kept rows the code still makes: by name and goal, as the sources of the benchmarks have them, without running any.

A row is made by a call of `row`, or is a dictionary with its fields. What of `work`, `against` and `goal` is written there, or is a
constant of the module, must be in the kept row; what is computed (a count of nodes, a name put together before) may be anything.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import Any

from benchmarks.measure import Row
from benchmarks.table import Entry

ANYTHING = ".*"
FIELDS = ("work", "against", "goal")


@dataclass(frozen=True)
class Wanted:
    """A row as its source has it."""

    work: str  # a pattern; more may stand before and after it ("IJ, one pair, …")
    against: str  # a pattern
    goals: frozenset[Any] | None  # None: it is computed

    def fits(self, row: Row) -> bool:
        return bool(
            re.search(f"(?:^|, ){self.work}(?:$|, )", row["work"])
            and re.fullmatch(self.against, row["against"])
            and (self.goals is None or row["goal"] in self.goals)
        )


def outdated(entry: Entry, rows: Sequence[Row]) -> list[Row]:
    """The kept rows of an entry that its code no longer makes: of another name, or for another goal."""
    modules = _modules(entry)
    every = [wanted for module in modules for wanted in _wanted(module)]
    again = frozenset(goal for module in modules for goal in _given_again(module))
    every += [replace(wanted, goals=again) for wanted in every]
    return [row for row in rows if not any(wanted.fits(row) for wanted in every)]


def _modules(entry: Entry) -> list[ModuleType]:
    """The module that makes the rows, and those of this folder whose rows it passes on (it imports them whole)."""
    maker = import_module(f"benchmarks.{entry.maker.split(':')[0]}")
    passed = [each for each in vars(maker).values() if isinstance(each, ModuleType)]
    return [maker, *(each for each in passed if each.__name__.startswith("benchmarks."))]


def _wanted(module: ModuleType) -> Iterator[Wanted]:
    tree, constants = ast.parse(inspect.getsource(module)), vars(module)
    for node in ast.walk(tree):
        fields = _fields(node)
        if "work" in fields and "against" in fields:
            work, against = (_pattern(fields[name], constants) for name in ("work", "against"))
            yield Wanted(work, against, _goals(fields.get("goal"), constants))


def _given_again(module: ModuleType) -> Iterator[Any]:
    """Goals that rows of others are given in place of theirs, as `{**row, "goal": None}`."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Dict) and "work" not in (fields := _fields(node)) and "goal" in fields:
            yield from _goals(fields["goal"], vars(module)) or ()


def _fields(node: ast.AST) -> dict[str, ast.expr]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "row":
        by_name = {each.arg: each.value for each in node.keywords if each.arg}
        return {**dict(zip(FIELDS, node.args, strict=False)), **by_name}
    if isinstance(node, ast.Dict):
        return {
            key.value: value for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)
        }
    return {}


def _pattern(node: ast.expr, constants: Mapping[str, Any]) -> str:
    """What a text looks like, whatever is put into it."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_pattern(part, constants) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _constant(node.value, constants, node.format_spec)
    if isinstance(node, ast.Constant):
        return re.escape(str(node.value))
    return _constant(node, constants)


def _constant(node: ast.expr, constants: Mapping[str, Any], spec: ast.expr | None = None) -> str:
    if not (isinstance(node, ast.Name) and node.id.isupper() and node.id in constants):
        return ANYTHING
    shape = "".join(part.value for part in spec.values) if isinstance(spec, ast.JoinedStr) else ""  # type: ignore[attr-defined]
    return re.escape(format(constants[node.id], shape))


def _goals(node: ast.expr | None, constants: Mapping[str, Any]) -> frozenset[Any] | None:
    if isinstance(node, ast.IfExp):
        both = [_goals(each, constants) for each in (node.body, node.orelse)]
        return None if None in both else frozenset().union(*both)  # type: ignore[arg-type]
    if isinstance(node, ast.Name) and node.id.isupper() and node.id in constants:
        return frozenset({constants[node.id]})
    return frozenset({node.value}) if isinstance(node, ast.Constant) else None
