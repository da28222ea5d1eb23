"""The source of a client's token: a private file or the environment, never the command line."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from siloquent.errors import NotAllowed
from siloquent.fixes import UseOption

TOKEN = "SILOQUENT_TOKEN"
TOKEN_FILE = "SILOQUENT_TOKEN_FILE"


def find_token(file: Path | str | None = None, *, environment: Mapping[str, str] | None = None) -> str:
    """Return the token from ``file``, the variable SILOQUENT_TOKEN, or the file that SILOQUENT_TOKEN_FILE names.

    Raises:
        NotAllowed: there is none, or others on this machine may read its file.
    """
    environment = os.environ if environment is None else environment
    named = file or (None if environment.get(TOKEN) else environment.get(TOKEN_FILE))
    if named is None:
        if text := environment.get(TOKEN, "").strip():
            return text
        raise NotAllowed("A server needs a token, but none is set.", fix=f"export {TOKEN_FILE}=FILE, or {TOKEN}=sq_...")
    try:
        with Path(named).open("rb") as opened:
            if os.fstat(opened.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise NotAllowed(
                    f"Other users of this machine can read the token in {named}.", fix=f"chmod 600 {named}"
                )
            return opened.read(200).decode("ascii", "replace").strip()
    except OSError as failed:
        raise NotAllowed(
            f"Cannot read the token file: {failed.strerror}.", fix=UseOption("token_file", "FILE")
        ) from None
