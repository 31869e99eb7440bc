"""mxassay: is this MXFP4 GEMM kernel for AMD MI355X right, and if it isn't, why not?

Importing this package loads neither torch nor triton.
"""

from pathlib import Path

__version__ = "0.1.0"

# In a checkout the packages stand at the root, beside pyproject.toml; with this line they import without installation.
_ROOT = Path(__file__).resolve().parents[2]
if (_ROOT / "pyproject.toml").is_file() and (_ROOT / "layouts").is_dir():
    __path__.append(str(_ROOT))
