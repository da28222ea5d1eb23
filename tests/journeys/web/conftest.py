"""A real browser on a real server: any console message, error, foreign request or axe finding fails the test."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from journeys.served import Served, serving
from journeys.silos import Silo, silo_workspace

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SHOTS = Path(__file__).parents[3] / "ci-out" / "screenshots"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker keeps the browser."""
    for item in items:
        if Path(str(item.path)).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.web)
            item.add_marker(pytest.mark.xdist_group("web"))


def chromium() -> str:
    """Where the browser is."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None and os.environ.get("CI"):
        pytest.fail("chromium is missing; on Debian: apt-get install chromium")
    return found or pytest.skip("no chromium here; on Debian: apt-get install chromium")


@pytest.fixture(scope="module")  # it keeps an event loop running in its thread: it ends before other tests begin
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="session")
def silo(tmp_path_factory: pytest.TempPathFactory) -> Silo:
    return silo_workspace(tmp_path_factory.mktemp("web") / "clinic")


@pytest.fixture(scope="session")
def served(silo: Silo) -> Iterator[Served]:
    with serving(silo.folder) as running:
        yield running


@pytest.fixture
def visit(browser: Any, served: Served, request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """``visit("ana")``: a page that is logged in as ana; with ``expects`` a status, its console line is no fault."""
    faults: list[str] = []
    contexts: list[Any] = []

    def opened(name: str | None, *, expects: tuple[int, ...] = (), **options: Any) -> Any:
        context = browser.new_context(base_url=served.address, **options)
        contexts.append(context)
        page = context.new_page()

        def heard(message: Any) -> None:
            if message.type in ("error", "warning"):
                status = re.search(r"status of (\d+)", message.text)
                if status is None or int(status[1]) not in expects:
                    faults.append(message.text)

        page.on("console", heard)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "request", lambda sent: None if sent.url.startswith((served.address, "data:")) else faults.append(sent.url)
        )
        if name is not None:
            page.goto("/login")
            page.get_by_label("Your token").fill(served.texts[name])
            page.get_by_role("button", name="Log in").click()
            page.get_by_role("button", name="Log out").wait_for()
        return page

    yield opened
    SHOTS.mkdir(parents=True, exist_ok=True)
    for number, context in enumerate(contexts):
        for page in context.pages:
            page.screenshot(
                path=SHOTS / f"{re.sub(r'[^a-z0-9]+', '-', request.node.name.lower())}-{number}.png", full_page=True
            )
        context.close()
    assert faults == []


@contextmanager
def no_barriers(page: Any) -> Iterator[None]:
    """The page has no finding of axe, of whatever weight."""
    from axe_playwright_python.sync_playwright import Axe

    yield
    found = Axe().run(page).response["violations"]
    assert [(one["id"], [node["target"] for node in one["nodes"]][:3]) for one in found] == []
