"""Load the samplers of noise before anything is charged. It draws nothing."""

from __future__ import annotations

from siloquent.errors import InstallationError


def require_samplers(*, compiled: bool = False) -> None:
    """Load OpenDP's samplers, so that a broken installation is found while it costs nothing.

    Args:
        compiled: Load our own compiled ones too, as processes that live long do at their start: half a second and
            100 MB that they would need later.
    Raises:
        InstallationError: They cannot be loaded.
    """
    try:
        from siloquent.privacy.noise import opendp_noise

        opendp_noise.load()
        if compiled:
            from siloquent.privacy.noise import kernels  # noqa: F401
    except (ImportError, OSError) as broken:
        raise InstallationError(
            f"The samplers of noise cannot be loaded: {str(broken)[:200]}.",
            fix="siloquent doctor, then install siloquent again in an environment of its own",
        ) from broken
