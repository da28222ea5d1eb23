"""The Sessions page beside a federation that runs: relay, workers, a party; a clinic that is not there yet."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from journeys.served import clinic_workspace, serving
from journeys.test_federation import ASKED, LONG, Silos, eventually
from journeys.web.conftest import no_barriers
from siloquent.errors import ProtocolError
from siloquent.federation.channel import Channel
from siloquent.federation.identity.bundle import read_bundle
from siloquent.federation.role_process import moderate


@pytest.fixture
def silos(tmp_path: Path) -> Iterator[Silos]:
    made = Silos(tmp_path)
    yield made
    made.stop()


def looked_at(page: Any, words: str) -> None:
    """Look at the page again until it says ``words``."""
    until = time.monotonic() + LONG
    while words not in page.locator("main").inner_text():
        assert time.monotonic() < until, page.locator("main").inner_text()
        time.sleep(0.3)
        page.reload()


@pytest.mark.slow
def test_an_operator_sees_who_is_waited_for_says_yes_and_sees_the_end(browser: Any, silos: Silos) -> None:
    assert silos.person.types("federation", "init", "f.toml", "-o", "b").status == 0
    folder = clinic_workspace(silos.folder / "clinic")
    silos.start("relay", "relay", "run")
    for name in ("w1", "w2"):
        silos.start(name, "worker", "run")
    silos.start("north", "--workspace", "clinic", "party", "run")
    eventually(lambda: bool(silos.document("federation", "check", "--bundle", "b/north")["ok"]))
    held: list[Channel] = []

    def hold() -> None:
        with suppress(ProtocolError):
            moderate(
                read_bundle(silos.folder / "b" / "office"), ASKED, ("north", "river", "w1", "w2"),
                lambda channel, invitation, desk: None, watch=held.append,
            )  # fmt: skip

    moderator = threading.Thread(target=hold)
    with serving(folder, bundle=str(silos.folder / "b" / "north")) as served:
        moderator.start()
        context = browser.new_context(base_url=served.address)
        page = context.new_page()
        page.goto("/login")
        page.get_by_label("Your token").fill(served.texts["owner"])
        page.get_by_role("button", name="Log in").click()
        page.goto("/sessions")
        looked_at(page, "invited")
        page.locator("main tbody a").first.click()
        looked_at(page, "waits for")
        with no_barriers(page):
            text = page.locator("main").inner_text()
        assert all(word in text for word in ("north house", "river house", "w1 (w1 house)", "a sum", "epsilon 1"))
        page.get_by_role("button", name="Approve").click()
        looked_at(page, "office waits for river since")
        looked_at(page, "never seen")
        with served.client("watcher") as watcher:
            assert "siloquent_federation_readable 1" in watcher.get("/metrics").text
        with suppress(ProtocolError):
            held[-1].abort("peer_missing")
        moderator.join(LONG)
        looked_at(page, "ended by office")
        looked_at(page, "aborted")
        context.close()
