"""What a check found: one record for each check and pc, that stands alone."""

from dataclasses import dataclass, replace

__all__ = ["Finding"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a kernel, seen `repeats` times (waves count once each time an instruction runs).

    Where: `pc` is the virtual address in the code object, `source` its file and line where debug information has it.
    `wave` (over the whole grid), `workgroup`, `lane`, `address` and `buffer` are those of the first time; None where
    they mean nothing. `address` is global, or a byte in the workgroup's LDS or the lane's scratch: `buffer` says which.
    """

    check: str
    kernel: str
    pc: int
    instruction: str
    source: tuple[str, int] | None
    explanation: str
    wave: int | None = None
    workgroup: int | None = None
    lane: int | None = None
    address: int | None = None
    buffer: str | None = None
    repeats: int = 1

    def again(self, repeats: int) -> "Finding":
        """The same finding, seen that many times more."""
        return replace(self, repeats=self.repeats + repeats)

    def text(self) -> str:
        """For people: what must be and is not, then where.

        >>> print(Finding("waitcnt", "add", 0x40, "v_mov_b32 v1, v2", None, "v2 must wait", 7, 1, 3).text())
        waitcnt: v2 must wait
          at pc 0x40 of add: `v_mov_b32 v1, v2`
          first in wave 7 of workgroup 1, lane 3; once
        """
        line = f" ({self.source[0]}:{self.source[1]})" if self.source else ""
        first = []
        if self.wave is not None:
            first.append(f"wave {self.wave} of workgroup {self.workgroup}")
        if self.lane is not None:
            first.append(f"lane {self.lane}")
        if self.address is not None:
            first.append(f"address {self.address:#x}" + (f" in {self.buffer}" if self.buffer else ""))
        times = "once" if self.repeats == 1 else f"{self.repeats} times"
        where = f"  first in {', '.join(first)}; {times}" if first else f"  {times}"
        return "\n".join(
            [
                f"{self.check}: {self.explanation}",
                f"  at pc {self.pc:#x} of {self.kernel}: `{self.instruction}`{line}",
                where,
            ]
        )
