"""The latency of explore.md 12.4 beside other systems: the same rows and question, each in an environment of its own.

The environments are made under ``.venv-peers`` of the project when they are not there; that takes minutes and a package
index. A peer that cannot be installed or does not run is shown as such, and judged by nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.explore.latency import QUESTION, cpu_ms, opened
from benchmarks.row import Options, Row

HERE = Path(__file__).resolve().parents[1]
ENVIRONMENTS = HERE.parent / ".venv-peers"
INSTALL_SECONDS, RUN_SECONDS = 900, 600


@dataclass(frozen=True, slots=True)
class Peer:
    """A system to compare with.

    Attributes:
        script: Its file under ``peers/``.
        packages: What its environment holds.
        times: How many times faster we mean to be.
        clock: ``cpu_ms``, or ``wall_ms`` where the work is done in another process.
    """

    name: str
    script: str
    packages: tuple[str, ...]
    times: float
    clock: str = "cpu_ms"
    arguments: tuple[str, ...] = ()


PEERS = (
    Peer("smartnoise-sql", "smartnoise_sql.py", ("smartnoise-sql>=1,<2", "pyarrow"), 7),
    Peer("pipelinedp", "pipelinedp.py", ("pipeline-dp>=0.3,<0.4",), 70),
    Peer("opendp-context", "opendp_context.py", ("opendp[polars]>=0.16,<0.17",), 100, arguments=("known",)),
    Peer("opendp-context-unknown-keys", "opendp_context.py", ("opendp[polars]>=0.16,<0.17",), 100, arguments=("new",)),
    Peer("tumult", "tumult.py", ("tmlt.analytics>=0.20,<1",), 400, clock="wall_ms"),
)


def rows(options: Options) -> Iterator[Row]:
    """Our milliseconds beside each peer's; the goal is the peer's figure over the wanted factor."""
    wanted = [peer for peer in PEERS if options.wants(f"peer-{peer.name}")]
    if options.quick or not wanted:
        return
    with tempfile.TemporaryDirectory() as folder:
        file = _adult(Path(folder), options.data)
        with opened(f"{folder}/w", options.data, "zcdp") as session:
            for peer in wanted:
                # Taken anew beside every peer: the machine's mood changes within minutes.
                ours = cpu_ms(lambda: session.ask(QUESTION), 60)
                found = figures(peer, file)
                if isinstance(found, str):
                    yield Row(f"peer-{peer.name}", ours=ours, unit="ms", how=f"no figure of the peer: {found}")
                    continue
                theirs = found[peer.clock]
                unit = "CPU ms" if peer.clock == "cpu_ms" else "ms: ours CPU, theirs wall"
                how = f"Adult, 16 groups, COUNT GROUP BY, warm, {found['rounds']:.0f} rounds; {theirs / ours:.0f}x"
                yield Row(f"peer-{peer.name}", ours=ours, peer=theirs, goal=theirs / peer.times, unit=unit, how=how)


def _adult(folder: Path, data: Path) -> Path:
    """The one column in question as Parquet, and as lines for those who read no Parquet."""
    import gzip

    import pyarrow.csv
    import pyarrow.parquet

    with gzip.open(data / "explore-adult" / "adult.csv.gz") as source:
        column = pyarrow.csv.read_csv(source).select(["education"])
    file = folder / "adult.parquet"
    pyarrow.parquet.write_table(column, file)
    file.with_suffix(".txt").write_text("\n".join(column["education"].to_pylist()) + "\n", encoding="utf-8")
    return file


def figures(peer: Peer, file: Path) -> dict[str, float] | str:
    """What the peer's script printed, or why there is nothing."""
    python = environment(peer)
    if isinstance(python, str):
        return python
    return printed(python, peer, str(file), "20", *peer.arguments)


def printed(python: Path, peer: Peer, *arguments: str, seconds: int = RUN_SECONDS) -> dict[str, float] | str:
    """What the peer's script printed last, run by that Python; or why there is nothing."""
    command = [str(python), str(HERE / "peers" / peer.script), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return "it takes too long"
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["it ended without a word"])[-1][:200]
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def environment(peer: Peer) -> Path | str:
    """The Python of the peer's environment, made if it is not there; or why it cannot be made."""
    folder = ENVIRONMENTS / peer.script.removesuffix(".py")
    python = folder / "bin" / "python"
    if (folder / "ready").exists():
        return python
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, capture_output=True)
        install = [str(python), "-m", "pip", "install", "--quiet", *peer.packages]
        subprocess.run(install, check=True, capture_output=True, timeout=INSTALL_SECONDS)
    except (subprocess.SubprocessError, OSError) as failed:
        return f"it cannot be installed: {type(failed).__name__}"
    (folder / "ready").touch()
    return python
