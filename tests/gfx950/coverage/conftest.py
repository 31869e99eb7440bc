"""Makes the modules of this folder importable: pytest's importlib mode adds nothing to sys.path."""

import os
import sys
from pathlib import Path

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
sys.path.insert(0, str(Path(__file__).parent))
