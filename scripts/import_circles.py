"""Circles of imports among the library's modules, and rooms of a task that import each other both ways.

``python -m scripts.import_circles`` prints every one. Each import counts, also one for type checkers only and one
inside a function: whoever follows a name from module to module meets them all.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
Imports = Mapping[str, set[str]]
"""The modules that each module imports, all of them in the library."""
TASK_ROOMS = {"plan", "measure"}
"""A folder with these two children is a task; each child of it is a room."""


def read_imports(package: Path) -> dict[str, set[str]]:
    """Read what each module below ``package`` imports of the others."""
    files = {_name_module(package, file): file for file in sorted(package.rglob("*.py"))}
    return {
        module: set(_iter_imports(ast.parse(file.read_text("utf-8")), set(files))) - {module}
        for module, file in files.items()
    }


def _name_module(package: Path, file: Path) -> str:
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _iter_imports(tree: ast.Module, modules: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            # "from package import name" means the module of that name, if there is one.
            for name in (f"{node.module}.{alias.name}" for alias in node.names):
                yield from (found for found in (name if name in modules else node.module,) if found in modules)


def find_circles(imports: Imports) -> list[tuple[str, ...]]:
    """Find the largest sets of modules of which each imports every other one, directly or through others of the set."""
    reached = {module: _find_reached(module, imports) for module in imports}
    circles = {
        tuple(sorted(other for other in reached[module] if module in reached[other]))
        for module in imports
        if module in reached[module]
    }
    return sorted(circles)


def _find_reached(module: str, imports: Imports) -> set[str]:
    """Find the modules that ``module`` imports, also through others; itself only on a circle."""
    reached: set[str] = set()
    waiting = list(imports[module])
    while waiting:
        one = waiting.pop()
        if one not in reached:
            reached.add(one)
            waiting += imports[one]
    return reached


def find_two_way_rooms(imports: Imports) -> list[tuple[str, str]]:
    """Find the pairs of rooms of one task of which each imports the other, in any of their modules."""
    children = defaultdict(set)
    for module in imports:
        parts = module.split(".")
        for depth in range(1, len(parts)):
            children[".".join(parts[:depth])].add(parts[depth])
    tasks = {folder for folder, names in children.items() if names >= TASK_ROOMS}
    crossed = set()
    for module, found in imports.items():
        for task in tasks:
            here, theirs = _find_room(module, task), {_find_room(one, task) for one in found}
            crossed |= {(here, there) for there in theirs if here and there and here != there}
    return sorted((one, other) for one, other in crossed if one < other and (other, one) in crossed)


def _find_room(module: str, task: str) -> str:
    """Return the room of ``task`` that ``module`` lies in; empty for a module elsewhere."""
    return f"{task}.{module.removeprefix(f'{task}.').split('.')[0]}" if module.startswith(f"{task}.") else ""


def main() -> int:
    """Print every circle and every two-way pair; 1 if there is one."""
    imports = read_imports(ROOT / "src" / "siloquent")
    circles, pairs = find_circles(imports), find_two_way_rooms(imports)
    for circle in circles:
        print(f"circle of {len(circle)}: {', '.join(circle)}")
    for one, other in pairs:
        print(f"two-way rooms: {one}, {other}")
    print(f"import circles: {len(circles)}, two-way rooms: {len(pairs)}")
    return 1 if circles or pairs else 0


if __name__ == "__main__":
    sys.exit(main())
