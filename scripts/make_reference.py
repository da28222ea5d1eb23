"""Write the reference pages that are made from the code: ``python -m scripts.make_reference [--check]``.

``docs/reference/errors.md`` comes from ``siloquent.errors``, ``cli.md`` from the command line's own help,
``benchmarks.md`` from the benchmarks' option parser, ``python.md`` lists what mkdocstrings shows. With ``--check``
nothing is written; the exit status says whether a page is out of date.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from siloquent import errors
from siloquent.errors import SiloquentError

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "reference"
MADE = "<!-- Made by scripts/make_reference.py: edit the code, then run `make docs`. -->"

ADVICE = {
    "internal": "A fault of siloquent. Keep command and output, and report it. A charge that was reserved stays.",
    "schema_invalid": "Read the place that the message names, change the line, run `siloquent check TABLE`.",
    "unknown_name": "Take one of the known names that the message lists; `siloquent tables` shows all.",
    "link_invalid": "Write `unit` as the fix says; see [linked units](../explanation/linked-units.md).",
    "workspace": "Name the workspace with `--workspace DIR`, or make one with `siloquent init DIR`.",
    "request_invalid": "Change the question as the message says. Nothing was asked of the data.",
    "kernel_invalid": "Take the kernel or the number that the message offers. Nothing was built or spent.",
    "syntax": "Look at the character that the message names; the language is in the explore reference.",
    "constraint": "Change or drop one of the constraints that the message names, or let it be soft: `hard = false`.",
    "too_few_reports": "Wait for more reports: `siloquent collect show` counts them by layer.",
    "unanswered": "Check that the server is up, then repeat the request with the same key: it is charged once.",
    "accuracy_unreachable": "Ask with the larger error that the message offers, or ask the owner for budget.",
    "installation": "Install siloquent again, alone in its environment; `siloquent doctor` says what is broken.",
    "missing_extra": "Install the extra that the message names, for example `pip install 'siloquent[postgres]'`.",
    "budget_exceeded": "Ask for less: a larger error costs less. `siloquent ledger show TABLE` says what is left.",
    "data_source_failed": "The text is fixed, since details could tell about rows. The owner runs `siloquent check`.",
    "protocol_failed": "The cause, one fixed text each, is in the [federation reference](federation.md#causes).",
    "ledger": "Free the disk or the lock that the message names, then ask again with the same key.",
    "key_reused": "Use a fresh key for a new request; keep a key for repeats of the same request.",
    "ledger_rolled_back": "A backup was restored. See [Restore a backup](../how-to/restore-a-backup.md).",
    "chain_broken": "Stop asking. See [Audit a ledger](../how-to/audit-a-ledger.md).",
    "release_invalid": "Do not use the file. Export the release again from the workspace that made it.",
    "not_allowed": "Ask the owner of the table, or use the name of an analyst who may.",
}


HTTP_WORDS = """\
`siloquent serve` serves a workspace; `siloquent openapi` prints this API as OpenAPI 3.1.

- Every request carries `Authorization: Bearer sq_...`, a token that the owner made.
- What spends needs `Idempotency-Key` with 1 to 64 printable characters. The same key and body give the same bytes
  at no cost, with `Idempotency-Replayed: true`; another body under the same key is refused, 409 `key_reused`. Once
  rows were replaced, an answer says in `about_rows` which rows it is about, also in a repeat.
- `POST /v1/tokens`, `/v1/uploads` and `/v1/collections/{collection}/reports` take a key if you want one: sent again,
  they give the reply of the first time with `Idempotency-Replayed: true` and make nothing new. A token's text is kept
  nowhere, so its key gives no second one: 409 `already_made` names the token, to be revoked if the text did not arrive.
  A job's key gives the job as it is now. Keys are the token's name's own, and are forgotten after `keep_replies_days`.
- `GET /v1/tables/{table}` tells owners the declaration's `ETag`. `PUT` with it in `If-Match` is refused, 412
  `precondition_failed`, if another declaration stands by now; `If-None-Match: *` declares only what is not there yet.
- `POST /v1/tables/{table}/refresh` takes new rows from an upload, or from a place that `sources` names. The table's
  own file must be in such a place, too; otherwise name the new file as `source` in the declaration.
- Each response to a good token says how many requests are left: `RateLimit-Policy: "token";q=30;w=3` (30 at once, which
  are there again after 3 seconds) and `RateLimit: "token";r=29;t=1` (29 left, one more in a second), as in the IETF's
  draft-ietf-httpapi-ratelimit-headers-11. On 429 `Retry-After` says the same as `t`.
- Every failure is an `application/problem+json` document with `code`, `detail`, `fix` and `spent`; the codes of tasks
  are those of [errors](errors.md). The server's own: 400 `idempotency_key_missing`, 401 `unauthorised`, 403
  `not_allowed` and `forged`, 404 `not_found`, 409 `conflict` and `already_made`, 412 `precondition_failed`, 428
  `precondition_required`,
  413 `body_too_large` and `text_too_long`, 415 `unsupported_media_type`, 422 `request_unreadable`, `upload_refused`,
  `plan_too_large` and `source_not_allowed`, 429 `too_many_requests` and `busy` with `Retry-After`, 431
  `headers_too_large`, 503 `too_slow`. If a file of the server cannot be used, nothing was charged: 507 `disk_full`, 503
  `store_busy` (another program locks it), `store_readonly`, `store_unreadable` or `store_damaged`; the ledger's code is
  `ledger` with the same status.
- A body of `POST` has 2 MiB at most (`body_bytes`, if that is less), also the question to a sketch with its rows or
  texts: ask in parts. Declarations and reports have `body_bytes`, uploads `upload_bytes`; longer ones are 413
  `body_too_large`.
  Each 64 KiB of a body count as one request more.
- One person may have `connections_each` requests open at once, with any number of tokens, waiting ones and streams
  included, as long as more than half of `connections` are free, a sixteenth of that as long as more than a quarter is,
  and one after that: 429 `busy`. Of the `queue` places for answers, prices and other work a person has `running` by the
  same rule. A proxy in front may refuse in the same form.
- Answers leave at whole multiples of a slot.
- What is somebody else's looks as if it were not there.
- The description is made for generating clients: each body of a success is closed, and is the document of that kind
  that `siloquent schema KIND` prints; a job's spec is the one of its task. Operation ids are verbs with their object.
  `openapi-python-client generate --url https://clinic.example.org/openapi.json` makes one that walks the tutorial:
  `python -m benchmarks doors --only generated-client` tries that.
- `POST /v1/jobs/prices` says what a job would cost before it runs. `GET /v1/jobs/{job}?wait=25` answers when the job
  has ended, or after so many seconds. Events send a comment each 15 seconds and go on after `Last-Event-ID`.
- A job's document says what it has cost so far, as the ledger has it, who pays, what it made, and who cancelled it.
- A parameter that an address does not take, or one that is said twice, is refused, 422 `request_unreadable`.
- Lists take `limit` and `after` (`before` for denials and acts): ask on with the last id until a page is empty.
- Versions: under `/v1` and in a kind `siloquent/KIND/1`, fields, routes, codes and optional parameters may be added, so
  a client ignores what it does not know. Nothing is taken away or changes its meaning: that needs `/v2`, or kind 2,
  which are served beside the old ones for a year at least, and announced in the changelog before."""


def error_classes() -> list[type[SiloquentError]]:
    """Every class of the tree, in the order in which ``errors.py`` declares them."""
    classes = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, SiloquentError)]
    return sorted(classes, key=lambda kind: inspect.getsourcelines(kind)[1])


def errors_page() -> str:
    """One row a code: class, exit status, HTTP status; then a section each with meaning and advice."""
    lines = [
        "# Errors",
        MADE,
        "",
        "Every refusal has a stable code, says what was expected and what to do now, and says what was spent.",
        "No message shows a row or an exact count.",
        "",
        "| code | exit | HTTP | class |",
        "|---|---|---|---|",
    ]
    classes = error_classes()
    lines += [
        f"| [`{kind.code}`](#{kind.code}) | {kind.exit_status} | {kind.http_status} | `{kind.__name__}` |"
        for kind in classes
    ]
    for kind in classes:
        meaning = inspect.getdoc(kind) or ""
        parent = kind.__base__
        under = f" A kind of `{parent.code}`." if parent and issubclass(parent, SiloquentError) else ""
        lines += ["", f"## {kind.code}", "", f"**{kind.title}.** {meaning}{under}", "", ADVICE[kind.code]]
    return "\n".join(lines) + "\n"


def cli_page() -> str:
    """Every command with its arguments and options, from the command line's own declarations."""
    import typer

    from siloquent.cli.app import app  # type: ignore[import-not-found, unused-ignore]

    root = typer.main.get_command(app)
    lines = [
        "# Command line",
        MADE,
        "",
        "Tables go to standard output, progress and errors to standard error. `--json` gives one document.",
        "Exit statuses are in [Errors](errors.md).",
    ]
    for path, command in commands("siloquent", root):
        lines += ["", f"## {path}", "", _help(command)]
        arguments = [line for parameter in command.params if (line := _parameter(parameter))]
        if arguments:
            lines += ["", "| argument | meaning |", "|---|---|", *arguments]
    return "\n".join(lines) + "\n"


def commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """``command`` and every command below it, with the words that call it."""
    if getattr(command, "hidden", False):
        return
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(f"{path} {name}", below)


def _help(command: Any) -> str:
    """The whole help text; a form feed ends what people read."""
    return inspect.cleandoc(command.help or "").split("\f")[0].strip()


def _parameter(parameter: Any) -> str:
    if getattr(parameter, "hidden", False) or parameter.name in ("install_completion", "show_completion"):
        return ""
    if parameter.param_type_name == "argument":
        name = f"`{(parameter.metavar or parameter.name).strip('[]{}').upper()}`"
    else:
        name = ", ".join(f"`{word}`" for word in (*parameter.opts, *parameter.secondary_opts))
    words = " ".join((getattr(parameter, "help", None) or "").split()).replace("|", "\\|")
    return f"| {name} | {words}{'' if not parameter.required else ' (required)'} |"


def benchmarks_page() -> str:
    """The options of ``python -m benchmarks`` and how rows are added."""
    import benchmarks
    from benchmarks.__main__ import parser

    lines = ["# Benchmarks", MADE, "", inspect.getdoc(benchmarks) or "", "", "| argument | meaning |", "|---|---|"]
    for action in parser()._actions:
        name = ", ".join(f"`{word}`" for word in action.option_strings) or f"`{action.metavar}`"
        meta = f" `{action.metavar}`" if action.option_strings and action.metavar else ""
        lines.append(f"| {name}{meta} | {action.help} |")
    return "\n".join(lines) + "\n"


def python_page() -> str:
    """The public modules, floor by floor; mkdocstrings fills them in."""
    lines = ["# Python", MADE, "", "What each floor offers to the one above, from its docstrings."]
    for name in ("", *FLOORS):
        module = f"siloquent.{name}" if name else "siloquent"
        if _exists(module):
            lines += ["", f"::: {module}"]
    return "\n".join(lines) + "\n"


FLOORS = (
    "errors",
    "charts",
    "schema",
    "privacy",
    "privacy.noise",
    "ledger",
    "data",
    "releases",
    "session",
    "explore",
    "discover",
    "search",
    "share",
    "sketch",
    "synth",
    "collect",
    "remote",
    "testing",
)


def _exists(module: str) -> bool:
    """Whether ``module`` is there; a folder without ``__init__.py`` is not yet a floor."""
    try:
        found = find_spec(module)
    except ModuleNotFoundError:
        return False
    return found is not None and found.origin is not None


def http_page() -> str:
    """Every route with its roles and fields, from the API's own description, and every setting of the server."""
    from dataclasses import fields
    from importlib import import_module

    from fastapi.routing import APIRoute

    from siloquent.server.access.roles import ROUTES
    from siloquent.server.observability import METRICS
    from siloquent.server.settings import Settings

    lines = ["# HTTP", MADE, "", HTTP_WORDS]
    for name in ("tables", "answers", "jobs", "releases", "collections", "silos", "ledger", "tokens"):
        router = import_module(f"siloquent.server.routes.{name}").router
        for route in (one for one in router.routes if isinstance(one, APIRoute)):
            method, path = ", ".join(sorted(route.methods or ())), route.path.replace(":path", "")
            lines += ["", f"## {method} /v1{path}", "", inspect.cleandoc(route.endpoint.__doc__ or "")]
            lines += ["", f"Roles: {', '.join(sorted(ROUTES[route.name]))}."]
            if route.body_field is not None:
                shape: Any = route.body_field.field_info.annotation
                lines += ["", "Body: " + ", ".join(_field(*one) for one in shape.model_fields.items()) + "."]
    lines += [
        "",
        "## Metrics",
        "",
        "`/healthz` answers everybody; `/readyz` and `/metrics` a token of the role operator.",
    ]
    lines += ["", "| metric | tells |", "|---|---|", *(f"| `{name}` | {words} |" for name, words in METRICS.items())]
    lines += ["", "## Settings", "", "| setting | default |", "|---|---|"]
    lines += [f"| `{one.name}` | `{one.default!r}` |" for one in fields(Settings)]
    return "\n".join(lines) + "\n"


def _field(name: str, one: Any) -> str:
    return f"`{name}`" if one.is_required() else f"`{name}` (optional)"


def pages() -> dict[Path, Callable[[], str]]:
    """Which page each function writes; the command line's page only where there is one."""
    made = {
        PAGES / "errors.md": errors_page,
        PAGES / "benchmarks.md": benchmarks_page,
        PAGES / "python.md": python_page,
    }
    if _exists("siloquent.cli") and _exists("siloquent.cli.app"):
        made[PAGES / "cli.md"] = cli_page
    if _exists("siloquent.server"):
        made[PAGES / "http.md"] = http_page
    return made


def out_of_date() -> list[str]:
    """The names of pages whose text differs from what the code says."""
    return [page.name for page, make in pages().items() if not page.is_file() or page.read_text("utf-8") != make()]


def main() -> int:
    """Write the pages, or with ``--check`` say which are out of date."""
    parser = argparse.ArgumentParser(description="Reference pages from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is out of date")
    if parser.parse_args().check:
        stale = out_of_date()
        for name in stale:
            print(f"docs/reference/{name} is out of date. Fix: make docs")
        return 1 if stale else 0
    for page, make in pages().items():
        page.write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
