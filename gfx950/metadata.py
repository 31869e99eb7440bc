"""The AMDGPU metadata note: arguments, sizes and counts of each kernel, as its compiler or author wrote them down.

Keys: LLVM AMDGPUUsage, "Code Object V3 Metadata" to "Code Object V6 Metadata".
"""

from dataclasses import dataclass

from mxassay.gfx950.elf import CodeObjectError
from mxassay.gfx950.msgpack import Value, decode

NOTE_NAME, NOTE_KIND = "AMDGPU", 32
# Declared policy: kernarg segments of real kernels take some hundred bytes.
MAX_KERNARG_BYTES = 1 << 20
# HSA Platform System Architecture: a work-group on AMD hardware holds at most 1,024 work-items.
MAX_WORKGROUP = 1024


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument. `offset` and `size` in bytes inside the kernarg segment.

    `value_kind` is the metadata's word: "by_value", "global_buffer", "dynamic_shared_pointer", ..., or "hidden_*" for
    what the runtime fills in. `name`, `type_name`, `address_space` and `access` are "" where the file leaves them out.
    """

    offset: int
    size: int
    value_kind: str
    name: str = ""
    type_name: str = ""
    address_space: str = ""
    access: str = ""

    @property
    def hidden(self) -> bool:
        return self.value_kind.startswith("hidden_")


@dataclass(frozen=True, slots=True)
class KernelMetadata:
    """What the note says of one kernel. Counts the note leaves out are None."""

    name: str
    symbol: str
    args: tuple[Argument, ...]
    kernarg_size: int
    kernarg_align: int
    lds_bytes: int
    scratch_bytes: int
    max_flat_workgroup_size: int
    reqd_workgroup_size: tuple[int, int, int] | None
    wavefront_size: int
    vgpr_count: int | None
    agpr_count: int | None
    sgpr_count: int | None
    vgpr_spill_count: int | None
    sgpr_spill_count: int | None
    dynamic_stack: bool


def read_metadata(note: bytes) -> tuple[str, tuple[KernelMetadata, ...]]:
    """The target and the kernels that a metadata note names. The target is "" when the note has none (V3).

    Raises:
        CodeObjectError: damaged MessagePack, a missing or ill-typed field, an argument outside the kernarg segment.
    """
    root = _map(decode(note), "the metadata note")
    kernels = _list(root.get("amdhsa.kernels", []), "amdhsa.kernels")
    target = _text(root, "amdhsa.target")
    return target, tuple(_kernel(_map(kernel, "an entry of amdhsa.kernels")) for kernel in kernels)


def _kernel(fields: dict[Value, Value]) -> KernelMetadata:
    name = _text(fields, ".name")
    symbol = _text(fields, ".symbol")
    if not name or not symbol:
        raise CodeObjectError(
            "a kernel's metadata must give .name and .symbol, not leave them empty; the file is damaged"
        )
    kernarg = _count(fields, ".kernarg_segment_size", MAX_KERNARG_BYTES)
    args = tuple(_argument(_map(arg, "an argument")) for arg in _list(fields.get(".args", []), f".args of {name}"))
    wanted = _list(fields.get(".reqd_workgroup_size", []), ".reqd_workgroup_size")
    sizes = [size for size in wanted if isinstance(size, int) and 0 < size <= MAX_WORKGROUP]
    if wanted and (len(sizes) != 3 or len(wanted) != 3):
        raise CodeObjectError(f".reqd_workgroup_size must be 3 sizes of 1 to {MAX_WORKGROUP}, not {wanted}")
    return KernelMetadata(
        name=name,
        symbol=symbol,
        args=args,
        # Real kernels declare less than their last argument needs (aiter fmoe: 436 bytes for arguments up to 440).
        kernarg_size=max([kernarg or 0, *(argument.offset + argument.size for argument in args)]),
        kernarg_align=_count(fields, ".kernarg_segment_align", 1 << 16) or 8,
        lds_bytes=_count(fields, ".group_segment_fixed_size", 1 << 32) or 0,
        scratch_bytes=_count(fields, ".private_segment_fixed_size", 1 << 32) or 0,
        max_flat_workgroup_size=_count(fields, ".max_flat_workgroup_size", MAX_WORKGROUP) or MAX_WORKGROUP,
        reqd_workgroup_size=(sizes[0], sizes[1], sizes[2]) if sizes else None,
        wavefront_size=_count(fields, ".wavefront_size", 64) or 64,
        vgpr_count=_count(fields, ".vgpr_count", 1 << 16),
        agpr_count=_count(fields, ".agpr_count", 1 << 16),
        sgpr_count=_count(fields, ".sgpr_count", 1 << 16),
        vgpr_spill_count=_count(fields, ".vgpr_spill_count", 1 << 16),
        sgpr_spill_count=_count(fields, ".sgpr_spill_count", 1 << 16),
        dynamic_stack=fields.get(".uses_dynamic_stack") is True,
    )


def _argument(fields: dict[Value, Value]) -> Argument:
    offset, size = _count(fields, ".offset", MAX_KERNARG_BYTES), _count(fields, ".size", MAX_KERNARG_BYTES)
    kind = _text(fields, ".value_kind")
    if offset is None or size is None or not kind:
        raise CodeObjectError("an argument's metadata must give .offset, .size and .value_kind; the file is damaged")
    return Argument(
        offset=offset,
        size=size,
        value_kind=kind,
        name=_text(fields, ".name"),
        type_name=_text(fields, ".type_name") or _text(fields, ".value_type"),
        address_space=_text(fields, ".address_space"),
        access=_text(fields, ".actual_access") or _text(fields, ".access"),
    )


def _map(value: Value, what: str) -> dict[Value, Value]:
    if not isinstance(value, dict):
        raise CodeObjectError(f"{what} must be a map, not a {type(value).__name__}; the file is damaged")
    return value


def _list(value: Value, what: str) -> list[Value]:
    if not isinstance(value, list):
        raise CodeObjectError(f"{what} must be an array, not a {type(value).__name__}; the file is damaged")
    return value


def _text(fields: dict[Value, Value], key: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise CodeObjectError(f"{key} must be a string, not a {type(value).__name__}; the file is damaged")
    return value


def _count(fields: dict[Value, Value], key: str, most: int) -> int | None:
    value = fields.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise CodeObjectError(f"{key} must be an integer of 0 to {most}, not {value!r:.40}; the file is damaged")
    return value
