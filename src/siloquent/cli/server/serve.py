"""The server and its accounts, on the command line of the server's machine."""

from __future__ import annotations

import shlex
import socket
import ssl
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from siloquent.charts.text import clean_text
from siloquent.cli.base.command import Options, register_command
from siloquent.cli.base.screen import LEFT, RIGHT
from siloquent.documents.server import build_settings_document, build_slots_document, build_token_list_document
from siloquent.errors import MissingExtra, RequestError, SchemaError, UnknownName
from siloquent.fixes import UseOption, build_fix, run

if TYPE_CHECKING:
    from siloquent.server.access.tokens import Tokens


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    register_command(app, "serve", serve, panel="Server")
    register_command(app, "openapi", print_openapi, panel="Server")
    group = typer.Typer(help="Manage access tokens: shown once, stored as hashes.")
    register_command(group, "create", create)
    register_command(group, "list", list_all)
    register_command(group, "revoke", revoke)
    app.add_typer(group, name="token", rich_help_panel="Server")
    group = typer.Typer(help="Measure settings of a server on this machine.")
    register_command(group, "calibrate", calibrate)
    app.add_typer(group, name="server", rich_help_panel="Server")


def serve(
    options: Options,
    host: Annotated[str | None, typer.Option("--host", help="The address to listen on.")] = None,
    port: Annotated[int | None, typer.Option("--port", help="The port.")] = None,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="The certificate, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key, PEM.")] = None,
    login: Annotated[
        str | None, typer.Option("--login", metavar="TOKEN_ID", help="Print a login link for the token.")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Show the settings and exit.")] = False,
) -> None:
    """Serve the workspace: an HTTP API and web pages. By default only this machine can connect."""
    options.require_owner("Serving")
    _require_extra()
    from siloquent.server.settings import read_settings

    folder = _get_folder(options)
    flags = {
        "host": host,
        "port": port,
        "tls_cert": None if tls_cert is None else str(tls_cert),
        "tls_key": None if tls_key is None else str(tls_key),
    }
    settings = read_settings(folder, flags=flags)
    plain = {name: getattr(settings, name) for name in settings.__dataclass_fields__}
    if show:
        if options.as_json:
            options.screen.write_document(build_settings_document(plain))
        else:
            options.screen.write_facts([(name, str(value)) for name, value in plain.items()])
        return
    import uvicorn

    from siloquent.foreign.connections import build_limited_protocol, prepare_process
    from siloquent.server import make_app
    from siloquent.server.observability import LOGGERS
    from siloquent.server.settings import build_client_reader, hears

    tls = _tls_context(settings.tls_cert, settings.tls_key) if settings.tls_cert else None
    _require_free_port(settings.host, settings.port)
    _require_whole_ledger(folder)
    app = make_app(folder, settings)
    address = f"{'https' if settings.tls_cert else 'http'}://{settings.host}:{settings.port}"
    if login is not None:
        options.screen.write_line(f"{address}/login/{app.state.house.tokens.create_login_link(login)}")
    options.screen.note(f"Serving {folder} at {address}. Press Ctrl-C to stop.")
    uvicorn.run(
        app,
        http=build_limited_protocol(
            build_client_reader(settings),
            max_each=settings.connections_each,
            max_all=settings.connections,
            hears=hears(settings),
            tls=tls,
        ),
        backlog=prepare_process(settings.connections, *LOGGERS),
        limit_concurrency=settings.connections + 1,
        timeout_graceful_shutdown=settings.answer_seconds,
        host=settings.host,
        port=settings.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxy),
        forwarded_allow_ips=settings.trusted_proxy or "127.0.0.1",
        timeout_keep_alive=75,
        h11_max_incomplete_event_size=16 * 2**10,
    )


def _require_free_port(host: str, port: int) -> None:
    """Check that the server can listen, before anything is opened.

    Raises:
        RequestError: another program listens there, or the address is not this machine's.
    """
    try:
        where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.create_server(where[4][:2], family=where[0]):
            pass
    except OSError as failed:
        raise RequestError(
            f"The server cannot listen on {host}, port {port}: {failed.strerror}.",
            fix=build_fix("end the program that listens there, or ", UseOption("port", port % 65_535 + 1)),
        ) from None


def _require_whole_ledger(folder: Path) -> None:
    """Verify the ledger before the server starts.

    Raises:
        ChainBroken: the ledger was altered.
    """
    from siloquent.errors import ChainBroken
    from siloquent.schema.workspace import read_workspace
    from siloquent.session import open_workspace_ledger

    with closing(open_workspace_ledger(read_workspace(folder))) as ledger:
        verdict = ledger.verify()
    if not verdict.ok:
        raise ChainBroken(verdict.problem, seq=verdict.first_bad_seq or 0)


def _tls_context(certificate: str, key: str) -> ssl.SSLContext:
    """Return a TLS 1.2 or 1.3 context with the workspace's certificate.

    Raises:
        SchemaError: the files cannot be read, or do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except OSError as failed:
        raise SchemaError(
            f"The certificate {certificate} and the key {key} cannot be used: {failed.strerror or failed}.",
            fix=f"openssl x509 -in {shlex.quote(certificate)} -noout; openssl pkey -in {shlex.quote(key)} -noout",
        ) from None
    return context


def calibrate(
    options: Options,
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="One table (default: all).")] = None,
    answers: Annotated[int, typer.Option("--answers", min=1, max=10_000, help="The number of answers to time.")] = 200,
) -> None:
    """Measure how long slots must be on this machine, by timing answers over generated rows of the declared size.
    Reads no rows of the table."""
    options.require_owner("Calibrating")
    import numpy as np

    from siloquent.server.calibrate import calibrate as timed

    with options.open_session() as session:
        schemas = [session.schema(name) for name in ([table] if table else session.list_tables())]
    found = list(timed(schemas, np.random.default_rng(1), answers=answers))
    if options.as_json:
        lines = [{"table": one.table, "rows": one.rows, "p99_ms": one.p99_ms, "slot_ms": one.slot_ms} for one in found]
        options.screen.write_document(build_slots_document(lines))
        return
    columns = [("table", LEFT), ("rows", RIGHT), ("99 of 100 within", RIGHT), ("slot", RIGHT)]
    rows = [(clean_text(one.table), f"{one.rows:,}", f"{one.p99_ms:.0f} ms", f"{one.slot_ms} ms") for one in found]
    options.screen.write_table(columns, rows)
    longest = max((one.slot_ms for one in found), default=0)
    options.screen.note(f"In [server] of siloquent.toml: slot_counts_ms = {longest}")


def print_openapi(options: Options) -> None:
    """Print the API's description (OpenAPI 3.1)."""
    _require_extra()
    from siloquent.server import make_app, read_settings

    folder = _get_folder(options)
    app = make_app(folder, read_settings(folder))
    document = app.openapi()
    app.state.house.close()
    options.screen.write_document(document)


def create(
    options: Options,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The token's user; an analyst's budget share has the same name.")
    ],
    role: Annotated[str, typer.Option("--role", help="owner, analyst, auditor, collector or operator.")] = "analyst",
    tables: Annotated[str, typer.Option("--tables", metavar="A,B", help="Only these tables (default: all).")] = "",
    days: Annotated[int, typer.Option("--days", help="The lifetime in days, at most 365.")] = 90,
) -> None:
    """Make a token. It is shown once; only its hash is stored."""
    options.require_owner("Making a token")
    wanted = tuple(filter(None, (one.strip() for one in tables.split(","))))
    from siloquent.schema.workspace import read_workspace
    from siloquent.server.access.acts import build_recorder

    tokens = _open_tokens(options)
    known = read_workspace(_get_folder(options)).list_table_names()
    text = tokens.create(name, role, tables=wanted, days=days, known=known, also=build_recorder(None, "create_token"))
    made = tokens.document(text)
    if options.as_json:
        options.screen.write_document(made)
        return
    options.screen.write_line(text)
    until = _day(made["expires"])
    options.screen.note(
        f"Give it to {clean_text(name)}; it is not shown again. Its id is {made['id']}; it expires on {until}."
    )


def list_all(options: Options) -> None:
    """List tokens, without their secrets."""
    options.require_owner("The list of tokens")
    found = _open_tokens(options).list()
    if options.as_json:
        options.screen.write_document(build_token_list_document(found))
        return
    columns: list[tuple[str, Any]] = [(name, LEFT) for name in ("id", "name", "role", "tables", "until", "state")]
    options.screen.write_table(columns, [_format_token(one) for one in found])
    if not found:
        options.screen.note("No tokens exist yet. Create one: siloquent token create NAME --role analyst")


def _format_token(one: dict[str, Any]) -> tuple[str, ...]:
    until = _day(one["expires"])
    state = "revoked" if one["revoked"] else "expired" if one["expires"] < time.time() else "open"
    return (
        clean_text(one["id"]),
        clean_text(one["name"]),
        one["role"],
        clean_text(", ".join(one["tables"]) or "all"),
        until,
        state,
    )


def _day(seconds: Any) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def revoke(
    options: Options,
    token: Annotated[
        str, typer.Argument(metavar="ID", help="The token's id, or its user's name if that has one open token.")
    ],
) -> None:
    """Revoke a token and end every browser session that it opened, immediately."""
    options.require_owner("Revoking a token")
    from siloquent.server.access.acts import build_recorder

    tokens = _open_tokens(options)
    token = _find_token(tokens, token)
    tokens.revoke(token, also=build_recorder(None, "revoke_token"))
    if options.as_json:
        options.screen.write_document(build_token_list_document([one for one in tokens.list() if one["id"] == token]))
        return
    options.screen.write_line(f"Token {clean_text(token)} revoked.")


def _find_token(tokens: Tokens, said: str) -> str:
    """Return the id that ``said`` is, or the id of the only open token of the user of that name."""
    known = tokens.list()
    if any(one["id"] == said for one in known):
        return said
    own = [str(one["id"]) for one in known if one["name"] == said and not one["revoked"]]
    if not own:
        names = [str(one[key]) for one in known for key in ("id", "name") if not one["revoked"]]
        raise UnknownName("token", said[:40], dict.fromkeys(names), fix=run("token list"))
    if len(own) > 1:
        raise RequestError(
            f"{said[:40]!r} has {len(own)} open tokens: {', '.join(own[:10])}.", fix=run("token revoke", own[0])
        )
    return own[0]


def _get_folder(options: Options) -> Path:
    from siloquent.schema.workspace import find_workspace, read_workspace

    return read_workspace(options.workspace or find_workspace(Path.cwd())).folder


def _open_tokens(options: Options) -> Tokens:
    _require_extra()
    from siloquent.server.access.tokens import Tokens
    from siloquent.server.store import Store

    return Tokens(Store(_get_folder(options) / "server.sqlite"))


def _require_extra() -> None:
    try:
        import fastapi  # noqa: F401
        import jinja2  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise MissingExtra("server", "Serving a workspace") from None
