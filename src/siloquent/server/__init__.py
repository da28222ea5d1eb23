"""The server: an HTTP API and web pages for a workspace, behind accounts with tokens. It computes nothing itself.

from siloquent.server import make_app, read_settings

app = make_app(Path("clinic"), read_settings(Path("clinic")))      # an ASGI application
"""

from siloquent.server.app import make_app
from siloquent.server.settings import Settings, read_settings

__all__ = ["Settings", "make_app", "read_settings"]
