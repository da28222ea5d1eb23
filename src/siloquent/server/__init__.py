"""The server: an HTTP API and web pages for a workspace, behind accounts with tokens. It computes nothing itself.

from siloquent.server import make_app, read_settings

app = make_app(Path("clinic"), read_settings(Path("clinic")))      # an ASGI application
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from siloquent.server.app import make_app
    from siloquent.server.settings import Settings, read_settings

__all__ = ["Settings", "make_app", "read_settings"]


def __getattr__(name: str) -> Any:
    """Import on first use: the process of a job needs the server's store, and none of its routes."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from siloquent.server import app, settings

    return getattr(app if name == "make_app" else settings, name)
