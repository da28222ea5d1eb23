"""What must never stand in the library, read from its syntax trees: ``python scripts/static_bans.py``.

Linters know bad style; these rules know a privacy system. Noise that can be guessed, files that run code when they are
read, output that nobody reviews and exceptions that swallow a failed charge are all one line long. A line that needs an
exception carries its reason: ``# allowed: reason``.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = re.compile(r"#\s*allowed: \S+")

# Only these draw from the machine's entropy without a mark; elsewhere (keys, ids) the line says why it is no noise.
NOISE_ROOM = "privacy/noise"
# A generator that came from the caller, or one with a seed, is no global state.
SEEDED = {"Generator", "BitGenerator", "SeedSequence", "PCG64", "PCG64DXSM", "Philox", "default_rng"}
UNSAFE_MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
UNSAFE_CALLS = {"eval", "exec", "yaml.load", "yaml.unsafe_load", "yaml.full_load"}
# Readers that make room for what a file claims.
BARE_MODULES = {"tomllib", "zipfile", "tarfile", "bz2", "lzma"}
BARE_CALLS = {
    "json.load",
    "json.loads",
    "numpy.load",
    "numpy.loadtxt",
    "numpy.genfromtxt",
    "gzip.open",
    "zlib.decompress",
}
BARE_METHODS = {
    "ParquetFile", "ParquetDataset", "read_schema", "open_file", "open_stream", "open_csv", "read_csv", "read_json",
    "load_der_public_key", "load_pem_x509_certificate", "load_pem_private_key", "load_der_x509_certificate",
}  # fmt: skip
# What these read was written by this very system and never left its machine: its databases, its package, its own text.
OWN_BYTES = {
    "collect/task.py", "data/engines/spark.py", "documents/kinds.py", "explore/spec/footprint.py",
    "explore/spec/stored_measurement.py", "federation/messages/journal.py", "federation/relay/store.py",
    "ledger/chain.py", "ledger/records.py", "server/jobs/queue.py", "server/repeats.py", "server/routes/answers.py",
    "server/routes/ledger.py", "server/access/tokens.py", "server/jobs/worker.py", "share/files.py",
    "sketch/estimate/moments.py", "sketch/federated.py",
    # Sources of private rows have bounds of their own (docs/decisions/data-hostile-files.md).
    "data/sources/text/csv.py", "data/sources/text/lines.py", "data/sources/text/packed.py",
    "data/sources/milliseconds.py", "data/sources/postgres.py",
}  # fmt: skip
MOST_MODULES = 15  # of a folder; more are read as a list, not as an order
TORCH_NOISE = {"torch.normal", "torch.rand", "torch.randn", "torch.randint", "torch.bernoulli", "torch.manual_seed"}
ROW_METHODS = {
    "count_by_cell", "sum_by_cell", "measure_together", "count_units_by_key", "count_units_by_group", "fold",
    "read_rows", "open_for_owner",
}  # fmt: skip
BROAD = {"Exception", "BaseException"}
# A docstring says what it does (a verb) or is (a noun), not in a relative clause.
RIDDLE = re.compile(r"(What|Whoever|Whatever|Who|How|Which|Where)\b")
# Two dots stand in ranges (0..120) and in paths; an ellipsis has three.
TWO_DOTS = re.compile(r"""(?<![\w./\\`'])\.\.(?![\w./`'])|(?<=[A-Za-z*])\.\.(?=[\s)\]"'}`,;]|$)|\(\.\.[,)]""")
NEGATION = re.compile(r"(?<![Tt]here )\b(is|are|was|were) no (?!longer\b|more\b|less\b|other\b|further\b)")
# Paths of one machine and package hosts; the brackets keep this file from finding itself.
FOREIGN = re.compile(r"(?<![\w.])/w[o]rk/|/o[p]t/pypi|pypi[.]org|pythonh[o]sted|deb[.]debian|registry[.]npmjs")
TEXT = {".py", ".toml", ".md", ".txt", ".yml", ".yaml", ".json", ".cfg", ".sh", ".css", ".sql", ""}


@dataclass(frozen=True, slots=True)
class Finding:
    """One banned thing: where it stands and why it must not."""

    path: str
    line: int
    why: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.why}"


@dataclass(frozen=True, slots=True)
class Place:
    """A syntax node with what a rule needs to judge it."""

    path: str  # relative to the package, with forward slashes
    node: ast.AST

    @property
    def draws_noise(self) -> bool:
        """Whether the file lies in the noise room."""
        return self.path.startswith(NOISE_ROOM)

    @property
    def meets_rows(self) -> bool:
        """Whether the file is on a release path: the noise room or a task's measure room."""
        return self.draws_noise or "/measure" in self.path


def dotted(node: ast.AST) -> str:
    """``numpy.random.normal`` for that chain of attributes, with ``np`` written out; empty for anything else."""
    if isinstance(node, ast.Name):
        return "numpy" if node.id == "np" else node.id
    if isinstance(node, ast.Attribute):
        left = dotted(node.value)
        return f"{left}.{node.attr}" if left else ""
    return ""


def imported(node: ast.AST) -> list[str]:
    """The dotted names that an import statement brings in."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def general_generators(place: Place) -> str:
    """Random numbers that are neither secure nor handed in."""
    names = [*imported(place.node), dotted(place.node)]
    if any(name == "random" or name.startswith("random.") for name in imported(place.node)):
        return "the module random is neither secure nor handed in: take a numpy Generator, or use privacy.noise"
    for name in names:
        if name in TORCH_NOISE:
            return f"{name} draws from a global generator: pass a generator, or use privacy.noise"
        if name.startswith("numpy.random.") and name.split(".")[2] not in SEEDED:
            return f"{name} is global: take a numpy Generator from the caller, or use privacy.noise"
        if name.startswith("numpy.random.") and place.meets_rows and name.split(".")[2] != "Generator":
            return f"{name} on a release path: privacy noise comes from privacy.noise alone"
    return ""


def unseeded_generators(place: Place) -> str:
    """``default_rng()``: a run that nobody can repeat."""
    node = place.node
    if isinstance(node, ast.Call) and dotted(node.func).endswith("default_rng") and not (node.args or node.keywords):
        return "default_rng() without a seed cannot be repeated: take a Generator from the caller"
    return ""


def entropy(place: Place) -> str:
    """The machine's entropy outside the noise room."""
    names = [*imported(place.node), dotted(place.node)]
    if not place.draws_noise and any(name in ("secrets", "os.urandom", "os.getrandom") for name in names):
        return "entropy is drawn in privacy/noise alone; mark keys and ids as such"
    return ""


def code_in_data(place: Place) -> str:
    """Reading data must never run code."""
    for name in imported(place.node):
        if name.split(".")[0] in UNSAFE_MODULES:
            return f"{name} runs code from files: store arrays and JSON"
    if isinstance(place.node, ast.Call):
        name = dotted(place.node.func)
        options = {word.arg: word.value for word in place.node.keywords}
        if name in UNSAFE_CALLS:
            return f"{name}() runs code from text"
        if name == "torch.load" and not _is(options.get("weights_only"), True):
            return "torch.load without weights_only=True runs code from files"
        if "allow_pickle" in options and not _is(options["allow_pickle"], False):
            return "allow_pickle runs code from files"
    return ""


def bare_readers(place: Place) -> str:
    """Parsers that trust sizes in what they read: bytes from others go through ``siloquent.foreign`` and its bounds."""
    if place.path.startswith("foreign/") or place.path in OWN_BYTES:
        return ""
    for name in imported(place.node):
        if name.split(".")[0] in BARE_MODULES:
            return f"{name} believes what a file says: use siloquent.foreign, or say whose file it is"
    if isinstance(place.node, ast.Call):
        name = dotted(place.node.func)
        if name in BARE_CALLS or name == "pyarrow.parquet.read_table" or name.rpartition(".")[2] in BARE_METHODS:
            return f"{name}() believes what a file says: use siloquent.foreign, or say whose file it is"
    return ""


def riddles(place: Place) -> str:
    """Docstrings that begin with a relative clause: "What is read" for "Read ..." or "The rows that are read"."""
    if not isinstance(place.node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return ""
    found = RIDDLE.match(ast.get_docstring(place.node) or "")
    return f"a docstring begins with a verb or a noun, not with {found[0]!r}" if found else ""


def negations(place: Place) -> str:
    """Texts that say "is no number" for "is not a number"."""
    if not isinstance(place.node, ast.Constant) or not isinstance(place.node.value, str):
        return ""
    found = NEGATION.search(place.node.value)
    return f'"{found[1]} not a ..." in English, not "{found[0]}..."' if found else ""


def ellipses(place: Place) -> str:
    """Texts with two dots for an ellipsis."""
    if not isinstance(place.node, ast.Constant) or not isinstance(place.node.value, str) or place.node.value == "..":
        return ""
    return '"..." is an ellipsis, not ".."' if TWO_DOTS.search(place.node.value) else ""


def row_access(place: Place) -> str:
    """The methods of a private table that hand out numbers or rows, outside the rooms that a privacy review reads."""
    node = place.node
    if place.path.startswith("data/") or place.meets_rows:
        return ""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ROW_METHODS:
        return f".{node.func.attr}() reads a private table: measure rooms alone may do that"
    return ""


def printing(place: Place) -> str:
    """The library talks through return values, errors and logging."""
    if isinstance(place.node, ast.Call) and dotted(place.node.func) == "print":
        return "print in the library: return a value, raise an error or log an event"
    return ""


def broad_excepts(place: Place) -> str:
    """A caught ``Exception`` hides our own bugs; where a door must fail closed, the line says so."""
    node = place.node
    if not isinstance(node, ast.ExceptHandler):
        return ""
    caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    if any(kind is None or dotted(kind) in BROAD for kind in caught):
        return "broad except: name what you can handle, or say why all is caught"
    return ""


RULES: tuple[Callable[[Place], str], ...] = (
    general_generators,
    unseeded_generators,
    entropy,
    code_in_data,
    bare_readers,
    row_access,
    riddles,
    negations,
    ellipses,
    printing,
    broad_excepts,
)


def _is(node: ast.AST | None, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def scan_source(path: str, text: str) -> Iterator[Finding]:
    """Findings in one module; ``path`` is relative to the package."""
    lines = text.splitlines()
    seen: set[tuple[int, str]] = set()
    for node in ast.walk(ast.parse(text)):
        for rule in RULES:
            why = rule(Place(path, node))
            line = getattr(node, "lineno", 0)
            if why and not MARK.search(lines[line - 1]) and (line, rule.__name__) not in seen:
                seen.add((line, rule.__name__))
                yield Finding(path, line, why)


def scan_package(package: Path) -> list[Finding]:
    """Findings in every module under ``package``, in the order of their names."""
    found: list[Finding] = []
    for file in sorted(package.rglob("*.py")):
        found += scan_source(file.relative_to(package).as_posix(), file.read_text("utf-8"))
    return found


def scan_layout(package: Path) -> Iterator[Finding]:
    """Folders with too many modules of their own, and public classes that share a name."""
    homes: dict[str, str] = {}
    for folder in sorted({file.parent for file in package.rglob("*.py")}):
        modules = sorted(file for file in folder.glob("*.py") if file.name != "__init__.py")
        if len(modules) > MOST_MODULES:
            path = folder.relative_to(package).as_posix()
            yield Finding(path, 0, f"{len(modules)} modules in one folder; the most is {MOST_MODULES}")
        for file in modules:
            path = file.relative_to(package).as_posix()
            classes = (node for node in ast.parse(file.read_text("utf-8")).body if isinstance(node, ast.ClassDef))
            for node in classes:
                if not node.name.startswith("_") and (home := homes.setdefault(node.name, path)) != path:
                    yield Finding(path, node.lineno, f"class {node.name} has the name of another one in {home}")


def scan_text(root: Path, files: Iterable[Path]) -> list[Finding]:
    """Paths of one machine and hosts of package indexes: the tree must mean the same everywhere."""
    found: list[Finding] = []
    for file in sorted(files):
        if file.suffix in TEXT:
            for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
                if hit := FOREIGN.search(line):
                    found.append(Finding(file.relative_to(root).as_posix(), number, f"names a machine: {hit[0]!r}"))
    return found


def tracked(root: Path) -> list[Path]:
    """The files that git would ship: tracked ones and new ones that it does not ignore."""
    command = ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    return [root / name for name in names if name and (root / name).is_file()]


def main() -> int:
    """Print every finding; 1 if there is one."""
    package = ROOT / "src" / "siloquent"
    found = [*scan_package(package), *scan_layout(package), *scan_text(ROOT, tracked(ROOT))]
    for finding in found:
        print(finding)
    print(f"static bans: {len(found)} found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
