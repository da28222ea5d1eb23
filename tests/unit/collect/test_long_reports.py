"""A file of reports that carry a value in clear is cut where its reports end, as its first one's channel says."""

from __future__ import annotations

import json
from pathlib import Path

from siloquent.collect import Client, Device, ReportStore
from unit.collect.shops import collection

TOWN = """
[[service]]
name = "town"
everyone = true
attribute = [
  { name = "age", type = "integer", lo = 0, hi = 9, outside = "clamp", null = { value = 0 } },
  { name = "kind", type = "category", values = ["x", "y"], other = "cell", null = "cell", sensitive = false },
]
"""


def test_a_file_of_long_reports_is_counted_as_its_bytes_are(tmp_path: Path) -> None:
    made = collection(TOWN)
    client = Client(json.loads(made.to_json()))
    sent = [client.report("town", [{"age": i % 10, "kind": "x"}], Device(f"u{i}", bytes(16), {})) for i in range(30)]
    assert {len(one) for one in sent} == {made.get_report_length(0)} != {40}
    (tmp_path / "reports.bin").write_bytes(b"".join(sent))
    with ReportStore(made) as store:
        found = store.ingest_file(tmp_path / "reports.bin")
    assert found.accepted == 30
