"""Loading of the noise samplers before anything is charged. Draws nothing."""

from __future__ import annotations

from siloquent.errors import InstallationError
from siloquent.fixes import build_fix, run


def require_samplers(*, compiled: bool = False) -> None:
    """Load OpenDP's samplers, so that a broken installation is detected at no cost.

    Args:
        compiled: Also load our own compiled ones, as long-lived processes do at start: half a second and 100 MB that
            they would need later anyway.
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
            f"The noise samplers cannot be loaded: {str(broken)[:200]}.",
            fix=build_fix(run("doctor"), ", then install siloquent again in an environment of its own"),
        ) from broken
