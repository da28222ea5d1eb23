"""Small changes of a source file: a number, a comparison, an operator, a call or its argument, a guard.

Left alone: annotations, decorators, assertions (also zip's), texts, what is raised, what is logged.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

KINDS = ("number", "boolean", "comparison", "arithmetic", "logic", "extreme", "argument", "identity", "call", "guard")

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
_EXTREMES = {"min": "max", "ceil": "floor", "any": "all", "minimum": "maximum", "argmin": "argmax", "nextafter": "add"}
_EXTREMES |= {new: old for old, new in _EXTREMES.items() if old != "nextafter"}
# First argument and result are of one type: without the call the program still makes sense.
_KEEP_TYPE = {"abs", "sorted", "round", "reversed", "sqrt", "log", "log2", "exp", "ceil", "floor", "rint", "unique"}
_KEEP_TYPE |= {"cumsum", "sort", "square", "nan_to_num", "expm1", "log1p", "frozenset", "flip"}
_LOGS = {"log", "logger", "LOG", "_log", "_LOG", "LOGGER", "logging", "warnings"}
# Arguments that are assertions: they change no value, and say that lengths are equal or that a copy may be made.
_PROMISES = {"strict", "zero_copy_only"}
_LEFT_ALONE = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.Match)
_TEXTS = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change of a source file: the bytes from ``start`` to ``end`` become ``new``.

    ``function``: qualified name of where it is, empty at the top of a module. ``statement``: first line of the
    statement around it. ``lines``: those whose running shows that a test may notice. ``binds``: for a statement outside
    of functions, the names that it binds. ``refusal``: of a guard, the lines that run only where it refuses.
    """

    kind: str
    line: int
    start: int
    end: int
    old: str
    new: str
    function: str
    statement: str
    lines: range
    binds: tuple[str, ...]
    refusal: range = range(0)

    def apply(self, source: str) -> str:
        """The changed source."""
        content = source.encode()
        return (content[: self.start] + self.new.encode() + content[self.end :]).decode()

    def __str__(self) -> str:
        return f"{self.line} in {self.function or 'module'}: {' '.join(self.old.split())} -> {self.new} ({self.kind})"


@dataclass(slots=True)
class Signatures:
    """What is known of the library's functions by their bare names, to leave out changes that cannot run at all.

    ``optional``: parameters and fields that have a default. ``keep_type``: whether result and first argument are alike.
    """

    optional: dict[str, set[str]] = field(default_factory=dict)
    keep_type: set[str] = field(default_factory=set)

    def read(self, tree: ast.Module) -> None:
        """Add the functions and classes of a module."""
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                self._read_function(node)
            elif isinstance(node, ast.ClassDef):
                fields = (part for part in node.body if isinstance(part, ast.AnnAssign) and part.value is not None)
                names = {part.target.id for part in fields if isinstance(part.target, ast.Name)}
                self.optional.setdefault(node.name, set()).update(names)

    def _read_function(self, node: ast.FunctionDef) -> None:
        given = node.args
        by_place = [*given.posonlyargs, *given.args]
        first_optional = len(by_place) - len(given.defaults)
        names = {argument.arg for argument in by_place[first_optional:]}
        pairs = zip(given.kwonlyargs, given.kw_defaults, strict=True)
        names |= {argument.arg for argument, default in pairs if default is not None}
        self.optional.setdefault(node.name, set()).update(names)
        first = next((argument for argument in by_place if argument.arg not in ("self", "cls")), None)
        if first and first.annotation and node.returns and ast.dump(first.annotation) == ast.dump(node.returns):
            self.keep_type.add(node.name)


def mutations(source: str, signatures: Signatures | None = None) -> list[Mutation]:
    """Every change that is known for ``source``, in the order of its text."""
    walk = _Walk(source, signatures or Signatures())
    walk.visit(ast.parse(source))
    return sorted(walk.found, key=lambda one: (one.start, one.end, one.new))


class _Walk(ast.NodeVisitor):
    """Visits what may be changed, and remembers in which function and statement it is."""

    def __init__(self, source: str, signatures: Signatures) -> None:
        self.lines = source.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line.encode()))
        self.content, self.signatures = source.encode(), signatures
        self.found: list[Mutation] = []
        self.scopes: list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef] = []
        self.statement: ast.stmt | None = None

    # Where we are

    def visit(self, node: ast.AST) -> None:
        """Visit a node; a statement becomes the one that the changes inside it name."""
        if isinstance(node, _LEFT_ALONE):
            return
        before = self.statement
        if isinstance(node, ast.stmt):
            self.statement = node
        super().visit(node)
        self.statement = before

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_scope(node, [*node.args.defaults, *[one for one in node.args.kw_defaults if one]])

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_scope(node, [*node.args.defaults, *[one for one in node.args.kw_defaults if one]])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_scope(node, [])

    def _visit_scope(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, defaults: list[ast.expr]
    ) -> None:
        for default in defaults:
            self.visit(default)
        self.scopes.append(node)
        for part in node.body:
            self.visit(part)
        self.scopes.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            if _root(node.value.func) in _LOGS:
                return
            self._add("call", node, "pass")
        self.generic_visit(node)

    # What is changed

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._add("boolean", node, repr(not value))
        elif isinstance(value, int | float):
            zero = type(value)(0)
            for other in dict.fromkeys([value + 1, value - 1, value * 2, zero]):
                if other != value:
                    self._add("number", node, repr(other) if other >= 0 else f"({other!r})")

    def visit_Compare(self, node: ast.Compare) -> None:
        for place, operator in enumerate(node.ops):
            changed = copy.copy(node)
            changed.ops = [*node.ops[:place], _COMPARED[type(operator)](), *node.ops[place + 1 :]]
            self._add("comparison", node, changed)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        is_text = any(
            isinstance(side, _TEXTS) or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
            for side in (node.left, node.right)
        )
        is_type = isinstance(node.op, ast.BitOr) and not self.scopes
        if type(node.op) in _COMPUTED and not is_text and not is_type:
            changed = copy.copy(node)
            changed.op = _COMPUTED[type(node.op)]()
            self._add("arithmetic", node, changed)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in _COMPUTED:
            changed = copy.copy(node)
            changed.op = _COMPUTED[type(node.op)]()
            self._add("arithmetic", node, changed)
        self.visit(node.value)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add("logic", node, node.operand)
        elif isinstance(node.op, ast.USub | ast.Invert):
            self._add("arithmetic", node, node.operand)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        changed = copy.copy(node)
        changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._add("logic", node, changed)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        if isinstance(node.body[-1], ast.Raise):
            last = node.body[-1]
            self._add("guard", node.test, "False", range(node.body[0].lineno, (last.end_lineno or last.lineno) + 1))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in _EXTREMES:
            changed = copy.copy(node)
            changed.func = copy.copy(node.func)
            setattr(changed.func, "id" if isinstance(node.func, ast.Name) else "attr", _EXTREMES[name])
            self._add("extreme", node, changed)
        first = node.args[0] if node.args else None
        keeps_type = name in _KEEP_TYPE or name in self.signatures.keep_type
        if first is not None and keeps_type and not isinstance(first, ast.Starred | ast.GeneratorExp):
            self._add("identity", node, first)
        for place, keyword in enumerate(node.keywords):
            if keyword.arg in _PROMISES:
                continue
            known = self.signatures.optional.get(name)
            if keyword.arg is not None and (known is None or keyword.arg in known):
                changed = copy.copy(node)
                changed.keywords = [*node.keywords[:place], *node.keywords[place + 1 :]]
                self._add("argument", node, changed)
        self.visit(node.func)
        for part in (*node.args, *(one.value for one in node.keywords if one.arg not in _PROMISES)):
            self.visit(part)

    def _add(self, kind: str, node: ast.expr | ast.stmt, new: str | ast.AST, refusal: range = range(0)) -> None:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self.starts[node.lineno - 1] + node.col_offset
        end = self.starts[node.end_lineno - 1] + node.end_col_offset
        text = new if isinstance(new, str) else ast.unparse(new)
        if isinstance(new, ast.expr):
            text = f"({text})"
        function = ".".join(scope.name for scope in self.scopes)
        lines, binds = self._reached()
        statement = self.lines[(self.statement or node).lineno - 1].strip()
        old = self.content[start:end].decode()
        self.found.append(
            Mutation(kind, node.lineno, start, end, old, text, function, statement, lines, binds, refusal)
        )

    def _reached(self) -> tuple[range, tuple[str, ...]]:
        """The lines that a test runs if it may notice; for what runs at import alone, the names that it binds."""
        statement = self.statement
        assert statement is not None
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):  # a default
            return range(statement.body[0].lineno, (statement.end_lineno or statement.lineno) + 1), ()
        body: list[ast.stmt] = getattr(statement, "body", [])
        end = body[0].lineno if body else (statement.end_lineno or statement.lineno) + 1
        lines = range(statement.lineno, max(end, statement.lineno + 1))
        if self.scopes and not isinstance(self.scopes[-1], ast.ClassDef):
            return lines, ()
        targets = [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and _is_stored(node)]
        return range(0), tuple(targets)


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _root(node: ast.expr) -> str:
    """The name on which a chain of attributes and calls begins."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""


def uses(trees: Mapping[str, ast.Module]) -> dict[str, set[tuple[str, int]]]:
    """For each name the lines of functions that read it, as files and lines; those of constants that hold it, too."""
    read: dict[str, set[tuple[str, int]]] = {}
    held: dict[str, set[str]] = {}
    for name, tree in trees.items():
        for used, line in _read_inside(tree):
            read.setdefault(used, set()).add((name, line))
        for statement in tree.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
                stored = {node.id for node in names if _is_stored(node)}
                for node in names:
                    if not _is_stored(node):
                        held.setdefault(node.id, set()).update(stored)
    for used, holders in held.items():
        for holder in holders:
            read.setdefault(used, set()).update(read.get(holder, ()))
    return read


def _read_inside(tree: ast.Module) -> Iterator[tuple[str, int]]:
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    for function in functions:
        for part in function.body:
            for node in ast.walk(part):
                if isinstance(node, ast.Name) and not _is_stored(node):
                    yield node.id, node.lineno
                elif isinstance(node, ast.Attribute):
                    yield node.attr, node.lineno
