"""One line of totals from JUnit files: ``python scripts/ci_summary.py ci-out``."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree


def totals(folder: Path) -> tuple[int, int, int]:
    """(passed, failed, skipped) over all ``*.xml`` in ``folder``; errors count as failed."""
    tests = failed = skipped = 0
    for file in sorted(folder.glob("*.xml")):
        for suite in ElementTree.parse(file).getroot().iter("testsuite"):
            tests += int(suite.get("tests", "0"))
            failed += int(suite.get("failures", "0")) + int(suite.get("errors", "0"))
            skipped += int(suite.get("skipped", "0"))
    return tests - failed - skipped, failed, skipped


def main() -> int:
    """Print the totals; 1 if nothing passed or something failed."""
    passed, failed, skipped = totals(Path(sys.argv[1]))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
