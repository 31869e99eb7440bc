"""The few answers aiter wants from a ROCm installation: a version, and which card is there. No compiler, no runtime.

aiter runs `rocminfo` and reads version files. It gets a folder that looks like ROCm's root and says gfx950, 256 units.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from mxassay.hosting.emulated_card import HIP_VERSION
from mxassay.hosting.prebuilt_choice import COMPUTE_UNITS, GFX

_ROCMINFO = f"""#!/bin/sh
cat <<'END'
ROCk module is not loaded: the card is emulated by mxassay
*******
Agent 1
*******
  Name:                    {GFX}
  Marketing Name:          AMD Instinct MI355X (emulated)
  Device Type:             GPU
  Compute Unit:            {COMPUTE_UNITS}
END
"""
_HIPCONFIG = f"""#!/bin/sh
echo {HIP_VERSION}
"""


def make_rocm_root() -> Path:
    """Write the stand-in into a new temporary folder, which is removed when the process ends."""
    root = Path(tempfile.mkdtemp(prefix="mxassay-rocm-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    (root / ".info").mkdir()
    (root / ".info" / "version").write_text(HIP_VERSION + "\n")
    (root / "bin").mkdir()
    for name, text in (("rocminfo", _ROCMINFO), ("hipconfig", _HIPCONFIG)):
        (root / "bin" / name).write_text(text)
        (root / "bin" / name).chmod(0o755)
    (root / "jit").mkdir()
    return root


def environment_for_aiter(root: Path) -> dict[str, str]:
    """Environment variables that make aiter find the stand-in, and keep it from writing into its checkout.

    aiter takes `rocminfo` from PATH before ROCM_HOME, so the stand-in leads PATH.
    """
    return {
        "AITER_TRITON_ONLY": "1",
        "AITER_JIT_DIR": str(root / "jit"),
        "ROCM_HOME": str(root),
        "ROCM_PATH": str(root),
        "PATH": os.pathsep.join([str(root / "bin"), os.environ.get("PATH", os.defpath)]),
    }
