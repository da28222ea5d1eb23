"""Files as people have them: each is read as the plain file is, or refused with the right reason and a fix that works.

The benchmark ``doors --only messy-files`` also takes them through ``declare`` and ``ask``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.doors.messy_files import EXPECTED, judge
from benchmarks.hostile.messy_files import MessyFile, messy_files
from benchmarks.hostile.messy_workbooks import messy_workbooks

FILES = [*messy_files(), *messy_workbooks()]


@pytest.mark.parametrize("file", FILES, ids=[file.name for file in FILES])
def test_a_file_is_read_right_or_refused_with_the_right_reason(file: MessyFile, tmp_path: Path) -> None:
    assert not judge(file, tmp_path, ask=False)


def test_there_are_sixty_files_and_more() -> None:
    assert len({file.name for file in FILES}) == len(FILES) >= 60
    assert sum(bool(file.refused) for file in FILES) >= 20
    assert sum(EXPECTED["ward"]) == 60
    assert max(EXPECTED["ward"]) < 20
