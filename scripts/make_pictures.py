"""The pictures of the documentation: ``python -m scripts.make_pictures`` asks a demo clinic's server in a real browser.

Needs Chromium and the test tools. Run it after a change of the pages, and look at what it made before it is committed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "tutorials" / "images"
QUESTION = "SELECT ward, COUNT(*) FROM visits GROUP BY ward"
SIZE = {"width": 1_000, "height": 700}


def main() -> None:
    """Draw every picture."""
    from playwright.sync_api import sync_playwright

    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("Chromium was not found. Fix: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        demo = Path(folder) / "demo-clinic"
        command = [sys.executable, "-m", "siloquent", "demo", "--quick", "--folder", str(demo)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        started = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        with serve(demo) as (address, tokens):
            steward(started, address, tokens["boss"], Path(folder))
            release = analyst(started, address, tokens["ana"])
            auditor(started, address, tokens["ada"], release)
        started.close()


@contextmanager
def serve(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a server over ``folder``, and a token for each of boss, ana and ada."""
    import uvicorn

    from siloquent.server import make_app, read_settings

    app = make_app(folder, read_settings(folder))
    server = uvicorn.Server(uvicorn.Config(app, port=8652, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    roles = {"boss": "owner", "ana": "analyst", "ada": "auditor"}
    try:
        yield "http://127.0.0.1:8652", {name: app.state.house.tokens.create(name, role) for name, role in roles.items()}
    finally:
        server.should_exit = True
        thread.join()


def log_in(browser: Any, address: str, token: str) -> Any:
    """A page that is logged in."""
    page = browser.new_context(base_url=address, viewport=SIZE).new_page()
    page.goto("/login")
    page.get_by_label("Your token").fill(token)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("button", name="Log out").wait_for()
    return page


def steward(browser: Any, address: str, token: str, folder: Path) -> None:
    """``declare.png``: the question about the columns of an uploaded file, answered."""
    (folder / "stays.csv").write_text("ward,days\nA,3\nB,5\nA,1\n")
    page = log_in(browser, address, token)
    page.goto("/declare")
    page.get_by_label("A CSV or Parquet file").set_input_files(folder / "stays.csv")
    page.get_by_role("button", name="Upload").click()
    page.get_by_label("The table's name").fill("stays")
    page.get_by_role("button", name="Read the columns' names").click()
    page.get_by_role("heading", name="Declare stays").wait_for()
    columns = {"ward": ("category", {"values": "A\nB"}), "days": ("integer", {"lo": "0", "hi": "60"})}
    for place in range(page.locator("select[name^=kind-]").count()):
        kind, said = columns[page.locator("legend").nth(place).inner_text()]
        page.locator(f"#kind-{place}").select_option(kind)
        for key, text in said.items():
            page.locator(f"#{key}-{place}").fill(text)
    page.screenshot(path=PICTURES / "declare.png", full_page=True)


def analyst(browser: Any, address: str, token: str) -> str:
    """``price.png``, ``answer.png`` and its answer alone, ``wards.png``; returns the name of the release."""
    page = log_in(browser, address, token)
    page.get_by_label("Your question, in SQL").fill(QUESTION)
    page.get_by_label("How exact: at most this many rows off").fill("100")
    page.get_by_role("button", name="Show the price").click()
    page.get_by_role("button", name="Ask", exact=True).wait_for()
    page.screenshot(path=PICTURES / "price.png", full_page=True)
    page.get_by_role("button", name="Ask", exact=True).click()
    heading = page.get_by_role("heading", name="Answer")
    heading.wait_for()
    page.screenshot(path=PICTURES / "answer.png", full_page=True)
    page.locator("section", has=heading).last.screenshot(path=PICTURES / "wards.png")
    return str(heading.inner_text()).split()[-1]


def auditor(browser: Any, address: str, token: str, release: str) -> None:
    """``release.png``: a release as an auditor sees it."""
    page = log_in(browser, address, token)
    page.goto(f"/releases/{release}")
    page.screenshot(path=PICTURES / "release.png", full_page=True)


if __name__ == "__main__":
    main()
