"""Makes the witness modules of this folder importable (pytest runs in importlib mode, which adds nothing to sys.path)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
