"""What each instruction does, one family a file. Importing this package fills the table of
`mxassay.gfx950.registry`."""

import importlib
import pkgutil

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
