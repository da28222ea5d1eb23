"""Parsing of options and files into offers, requests and paths; every refusal names the option to change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from siloquent.cli.base.paths import read_toml, resolve_file, resolve_path
from siloquent.errors import RequestError
from siloquent.fixes import run
from siloquent.foreign import DocumentTooLarge, read_text

if TYPE_CHECKING:
    from siloquent.cli.base.command import Options
    from siloquent.search import AugmentPlan, OfferSpec, RequestSpec

CATALOGUE = "catalogue"
MAX_PLAN = 2**26


def build_offer_spec(options: Options, table: str, given: dict[str, Any]) -> OfferSpec:
    """Return the offer described by a command line: a TOML file, or a table and options.

    Raises:
        RequestError: something is missing; the fix names the option.
    """
    from siloquent.search import parse_spec

    if table.endswith(".toml"):
        return parse_spec(read_toml(resolve_file(options, Path(table))))
    if not given["features"]:
        raise RequestError(
            "An offer needs features.", fix=run("search offer", table, "--features", "A,B", "--epsilon", "1")
        )
    plain: dict[str, Any] = {
        "table": table,
        "features": split_names(given["features"]),
        "keys": parse_keys(given["by"]),
        "owner": given["owner"] or "",
        "norm_cut": given["norm_cut"],
        "range": given["ranges"],
        "order": given["order"],
    }
    if given["second_moments"] is not None:
        plain["second_moments"] = given["second_moments"]
    plain["budget"] = build_budget(given, f"siloquent search offer {table} ... --epsilon 1")
    return parse_spec({name: value for name, value in plain.items() if value is not None})


def build_request_spec(options: Options, request: str, given: dict[str, Any]) -> RequestSpec:
    """Return the request described by a command line: a TOML file, or a table and options.

    Raises:
        RequestError: something is missing; the fix names the option.
    """
    from siloquent.search import parse_request

    if request.endswith(".toml"):
        return parse_request(read_toml(resolve_file(options, Path(request))))
    if not given["target"]:
        raise RequestError(
            "A request needs a target.",
            fix=run("search find", request, "--target", "Y", "--features", "X", "--by", "KEY"),
        )
    is_priced = given["epsilon"] is not None or given["rho"] is not None
    return parse_request(
        {
            "table": request,
            "target": given["target"],
            "features": split_names(given["features"] or ""),
            "keys": parse_keys(given["by"]),
            "kinds": list(split_names(given["kinds"])),
            "scoring": "platform" if is_priced else "local",
            "budget": build_budget(given, "") if is_priced else None,
            "max_augmentations": given["most"],
            "model": given["model"],
            "range": given["ranges"],
            "order": given["order"],
        }
    )


def build_budget(given: dict[str, Any], fix: str) -> dict[str, str]:
    """Return the price given on a command line."""
    found = {name: given[name] for name in ("epsilon", "rho") if given[name] is not None}
    if len(found) != 1:
        raise RequestError("An offer needs a price: --epsilon or --rho.", fix=fix or "--epsilon 1")
    return found


def split_names(text: str) -> list[str]:
    """Return comma-separated names."""
    return [name.strip() for name in text.split(",") if name.strip()]


def parse_keys(by: Sequence[str] | None) -> list[dict[str, Any]]:
    """Parse join keys: ``district``, ``district+year`` for both together, ``dbn:2`` for its first two characters."""
    found = []
    for text in by or ():
        name, _, parent = text.partition(":")
        if parent and not (parent.isascii() and parent.isdigit()):
            raise RequestError(f"--by {text!r}: a number of characters must follow the colon.", fix="--by dbn:2")
        found.append({"attributes": [part.strip() for part in name.split("+")], "parent": int(parent or 0) or None})
    return found


def resolve_catalogue_path(options: Options, given: str | None) -> Path:
    """Return a catalogue's folder: a plain name is one in the workspace, a name with a / a path."""
    return resolve_path(options, given or CATALOGUE)


def load_plan(options: Options, name: str) -> AugmentPlan:
    """Return the plan in a file.

    Raises:
        RequestError: the file cannot be read, or is not a plan.
    """
    from siloquent.search import parse_augment_plan

    path = resolve_file(options, Path(name))
    try:
        return parse_augment_plan(read_text(path, MAX_PLAN))
    except DocumentTooLarge:
        raise RequestError(f"{path} is too large to be a plan.") from None
    except (OSError, UnicodeDecodeError):
        raise RequestError(
            f"{path} cannot be read.", fix=run("search find", "REQUEST.toml", "-o", "PLAN.json")
        ) from None
