"""The former home of `launch`; import it from `mxassay.gfx950`."""

from mxassay.gfx950.launcher import launch

__all__ = ["launch"]
