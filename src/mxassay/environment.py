"""What a verdict depends on besides the kernel: versions and the machine."""

import platform
from importlib.metadata import PackageNotFoundError, version

import mxassay

_PACKAGES = ("torch", "triton", "numpy", "hypothesis", "tinygrad")


def environment() -> dict[str, str]:
    """Versions of mxassay, Python and the packages that can change a result. Imports none of them."""
    found = {
        "mxassay": mxassay.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "absent"
    return found
