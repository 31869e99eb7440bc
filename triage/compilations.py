"""What Triton makes of a kernel, stage by stage, and where two compilations part."""

import difflib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

STAGES = ("ttir", "ttgir", "llir", "amdgcn")
"""Triton's stages for AMD, in order: its own IR, the same with layouts, LLVM IR, assembly."""

OPTIONS = frozenset(("num_stages", "num_warps", "waves_per_eu", "matrix_instr_nonkdim"))
"""Launch options that any kernel takes; other names are changed only where the launch gives them."""


@dataclass(frozen=True)
class Compiled:
    """One kernel as it was launched: its name, and its text by stage. `binary` is the code object."""

    name: str
    texts: Mapping[str, str]
    binary: bytes


@contextmanager
def compiled_by(changes: Mapping[str, Any] | None = None) -> Iterator[list[Compiled]]:
    """Every Triton kernel that is launched inside the block, in order; launches are made with `changes` in place of
    their own constants and options, as far as they take them."""
    from triton.runtime.jit import JITFunction

    seen: list[Compiled] = []
    before = JITFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        for name, value in (changes or {}).items():
            if name in kwargs or name in OPTIONS:
                kwargs[name] = value
        kernel = before(self, *args, grid=grid, warmup=warmup, **kwargs)
        texts = getattr(kernel, "asm", None)
        if texts is not None:
            found = {stage: texts[stage] for stage in STAGES if stage in texts}
            seen.append(Compiled(str(self.__name__), found, texts.get("hsaco", b"")))
        return kernel

    JITFunction.run = run
    try:
        yield seen
    finally:
        JITFunction.run = before


def normalised(stage: str, text: str) -> list[str]:
    """The lines of a stage without what two equal programs may differ in: locations, comments, debug information, how a
    version of Triton spells cache policies and types. The numbers of values and labels are dealt anew in the order of
    their appearance.

    >>> normalised("ttir", '%7 = arith.addi %a, %a : i32 loc(#loc3)\\n#loc3 = loc("x.py":1:2)')
    ['%v0 = arith.addi %v1, %v1 : i32']
    """
    names: dict[str, str] = {}

    def numbered(found: re.Match[str]) -> str:
        kind = found[0][0] if found[0][0] in "%^!" else "."
        return names.setdefault(found[0], f"{kind}v{len(names)}")

    lines = []
    for line in text.splitlines():
        for pattern in _DROPPED[stage]:
            line = pattern.sub("", line)
        line = _BUFFER_TYPE.sub(r"\1 : ", _CACHE_POLICY.sub(_cache_modifier, line))
        if line.strip():
            lines.append(_NAMES[stage].sub(numbered, line.rstrip()))
    return lines


def _cache_modifier(found: re.Match[str]) -> str:
    """As Triton up to 3.8 writes it, which leaves out what is usual."""
    usual = ("none", "evict_normal")
    words = zip(("cacheModifier", "evictionPolicy"), found.groups()[:2], strict=True)
    told = "".join(f" {name} = {value}" for name, value in words if value and value not in usual)
    return told if found[3] == "}" else f"{told} {{"


_CACHE_POLICY = re.compile(
    r" \{cachePolicy = #tt\.cache_policy<(?:cache_modifier = (\w+))?(?:, )?(?:eviction_policy = (\w+))?>(\}|, )"
)
# Triton 3.9 tells the type of the pointer too.
_BUFFER_TYPE = re.compile(r"(amdg\.buffer_(?:load|store) .*) : !tt\.ptr<\w+> -> ")
_LOCATION = (re.compile(r"^#loc.*$"), re.compile(r"\s*loc\((?:[^()]|\([^()]*\))*\)"), re.compile(r"^\s*//.*$"))
_DROPPED: dict[str, tuple[re.Pattern[str], ...]] = {
    "ttir": _LOCATION,
    "ttgir": _LOCATION,
    "llir": (
        # Attributes repeat the options.
        re.compile(r"^(?:!|attributes #).*$"), re.compile(r"^(?:source_filename|target ).*$"),
        re.compile(r"^; ModuleID.*$"),
        re.compile(r",? ?!(?:dbg|tbaa|noalias|alias\.scope) ![0-9]+"), re.compile(r"\s*#dbg_\w+\(.*$"),
        re.compile(r"\s*;.*$"),
    ),
    "amdgcn": (
        re.compile(r"^\s*\.(?:loc|file|cfi_\w+|ident|section|byte|short|long|quad|ascii|asciz|string|p2align|size|set|type)\b.*$"),
        re.compile(r"\s*;.*$"), re.compile(r"^\.L(?:tmp|func|debug|info|line|abbrev)\w*:?.*$"),
    ),
}  # fmt: skip
_NAMES: dict[str, re.Pattern[str]] = {
    "ttir": re.compile(r"%[\w$.#-]+|\^bb\d+"),
    "ttgir": re.compile(r"%[\w$.#-]+|\^bb\d+"),
    "llir": re.compile(r"%[\w$.-]+|^\d+(?=:)"),
    "amdgcn": re.compile(r"\.L[\w$]+"),
}


def first_difference(failing: list[Compiled], passing: list[Compiled]) -> tuple[str, str] | None:
    """The first stage at which some kernel's two compilations differ, and how, as a unified diff of at most forty
    lines. None where they are the same, or not of the same kernels."""
    if [kernel.name for kernel in failing] != [kernel.name for kernel in passing]:
        return None
    for stage in STAGES:
        for wrong, right in zip(failing, passing, strict=True):
            before, after = (normalised(stage, kernel.texts.get(stage, "")) for kernel in (wrong, right))
            if before != after:
                return stage, _difference(stage, before, after, f"{wrong.name}.{stage}")
    return None


def _difference(stage: str, before: list[str], after: list[str], name: str) -> str:
    """A unified diff of the lines without the numbers of their values, which one insertion would change in all lines
    behind it; with them, where nothing else differs."""
    plain = [[_NUMBERED.sub(r"\1", line) for line in lines] for lines in (before, after)]
    if plain[0] == plain[1]:
        plain = [before, after]
    found = difflib.unified_diff(plain[0], plain[1], f"{name} (fails)", f"{name} (passes)", lineterm="", n=2)
    return "\n".join(line[:200] for line, _ in zip(found, range(40), strict=False))


_NUMBERED = re.compile(r"([%^!.])v\d+\b")

Change = tuple[str, Mapping[str, Any]]
CHANGES: tuple[Change, ...] = (
    ("num_stages=1", {"num_stages": 1}),
    ("num_stages=2", {"num_stages": 2}),
    ("num_stages=3", {"num_stages": 3}),
    ("waves_per_eu=1", {"waves_per_eu": 1}),
    ("num_warps=2", {"num_warps": 2}),
    ("num_warps=8", {"num_warps": 8}),
    ("matrix_instr_nonkdim=32", {"matrix_instr_nonkdim": 32}),
    ("USE_ASM=False", {"USE_ASM": False}),
    ("ROUND_IN_INTEGERS=True", {"ROUND_IN_INTEGERS": True}),
)
"""Other ways to compile the same source, those first that change least. The last two are constants of our own kernel:
they take the branch for other hardware."""
