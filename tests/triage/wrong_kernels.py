"""Faults of the kernel on trial: in a copy of the code each is planted, a case that fails is looked into, and what was
found is printed as JSON.

    python wrong_kernels.py FOLDER [FAULT ...]

Everything but the kernel's own package is imported once; each fault runs in a child with its own copy of it.
"""

import importlib.abc
import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path

import torch

from mxassay.gfx950 import emulated
from mxassay.loading import Request, open_kernels
from mxassay.properties.faults import planted
from mxassay.properties.kernel import KernelUnderTest, Launch, Placement
from mxassay.properties.operands import Operands
from mxassay.reference import quantize
from mxassay.triage.failure import Failure, Subject
from mxassay.triage.rerun import again, fails, on
from mxassay.triage.xray import xray

ORIGINAL = Path(importlib.util.find_spec("mxassay.optimized").submodule_search_locations[0])

# Shape and plan that show a fault, by id; the first one for all others.
CASES = {
    "": ((16, 64, 512), {"tile_m": 16, "tile_n": 64, "tile_k": 256}),
    "weight-tail-in-elements": ((5, 48, 320), {"tile_m": 8, "tile_n": 64, "tile_k": 256}),
    "ragged-step-dropped": ((5, 48, 320), {"tile_m": 8, "tile_n": 64, "tile_k": 256}),
    "split-starts-in-packed-bytes": ((5, 48, 512), {"tile_m": 8, "tile_n": 64, "tile_k": 256, "splits": 2}),
    "last-partial-not-read": ((5, 48, 512), {"tile_m": 8, "tile_n": 64, "tile_k": 256, "splits": 2}),
    "all-splits-into-the-first-slot": ((5, 48, 512), {"tile_m": 8, "tile_n": 64, "tile_k": 256, "splits": 2}),
    "remap-forgets-the-remainder": ((5, 48, 512), {"tile_m": 8, "tile_n": 64, "tile_k": 256, "splits": 2}),
    "uneven-splits-taken-for-even": ((16, 64, 768), {"tile_m": 16, "tile_n": 64, "tile_k": 256, "splits": 2}),
    "linear-plan-reads-preshuffled": ((16, 64, 512), {"tile_m": 16, "tile_n": 64, "tile_k": 256, "linear": True}),
    "last-column-of-tiles-not-launched": ((5, 80, 256), {"tile_m": 8, "tile_n": 64, "tile_k": 256}),
}


class Copy(importlib.abc.MetaPathFinder):
    """Finds the kernel's package in a copy."""

    def __init__(self, root):
        self.root = root

    def find_spec(self, name, path=None, target=None):
        if name != "mxassay.optimized":
            return None
        return importlib.util.spec_from_file_location(
            name, self.root / "__init__.py", submodule_search_locations=[str(self.root)]
        )


def look(fault):
    """A wrong product of the copy, x-rayed."""
    from mxassay.optimized import Plan

    (m, n, k), plan = CASES.get(fault, CASES[""])
    generator = torch.Generator().manual_seed(1)
    blocks = torch.arange(k // 32)
    a = torch.randn(m, k // 32, 32, generator=generator)
    a *= torch.exp2(((7 * torch.arange(m)[:, None] + 3 * blocks) % 13 - 6).float())[..., None]
    weights = quantize(torch.randn(n, k, generator=generator).to(torch.bfloat16))
    scales = (weights.scales.int() + (5 * torch.arange(n)[:, None] + 11 * blocks) % 9).to(torch.uint8)
    operands = Operands(a.reshape(m, k).to(torch.bfloat16), weights.packed, scales, words="ramped")
    with emulated(), open_kernels(Request(None, None, "even", "emulated")) as kernels:
        run = on(KernelUnderTest(kernels[0], "emulated", "cpu", own=True))
        failure = again(Failure(Subject(), operands, Launch(Plan(**plan)), Placement(), None), run)
        if not fails(failure):
            return {"stage": None, "what": "the case passes"}
        first = xray(failure, run).first_divergence
    return {"stage": first and first.stage, "what": first and first.what, "pc": first and first.pc}


def main(folder, *names):
    torch.set_num_threads(1)
    for fault in planted():
        if fault.id not in names:
            continue
        root = Path(folder) / fault.id / "optimized"
        shutil.copytree(ORIGINAL, root, ignore=shutil.ignore_patterns("__pycache__"))
        file = root / Path(fault.file).relative_to("optimized")
        file.write_text(fault.applied_to(file.read_text()))
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            sys.meta_path.insert(0, Copy(root))
            sys.dont_write_bytecode = True
            print(json.dumps({"id": fault.id, "declared": fault.stage, **look(fault.id)}), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
