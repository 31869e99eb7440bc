"""Opening the kernel of a failure again, here or on another device, and finding out what is wrong with it."""

import hashlib
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mxassay.declaration import settled
from mxassay.devices import device
from mxassay.environment import environment
from mxassay.errors import ContractError, UnsupportedError
from mxassay.loading import Request, open_kernels
from mxassay.verdicts import Verdict

if TYPE_CHECKING:
    from mxassay.cases import Case
    from mxassay.devices import Device
    from mxassay.elsewhere import OtherTriton
    from mxassay.kernels import Kernel, Shape
    from mxassay.properties.kernel import KernelUnderTest
    from mxassay.triage.diagnosis import Blame, Diagnosis, XRay
    from mxassay.triage.failure import Failure, Subject
    from mxassay.triage.report import Replay
    from mxassay.triage.screen import Call
    from mxassay.verdicts import CaseRecord


@contextmanager
def opened(subject: "Subject", dialect: str = "even", on: str | None = None) -> "Iterator[KernelUnderTest]":
    """The kernel of `subject` on its device, or on the device `on`, as the one under test of this process.

    Raises ContractError where the subject names several kernels; UnsupportedError where the kernel or the device
    can't be used here.
    """
    chosen = device(on or subject.device)
    with ExitStack() as stack:
        stack.enter_context(chosen.open())
        if chosen.name == "emulated":
            import tinygrad.renderer.amd  # noqa: F401  # raises the recursion limit when it is first imported
        request = Request(
            spec=subject.spec,
            abi=subject.abi,
            dialect=dialect,
            device=chosen.name,
            aiter=subject.aiter,
            tile=subject.tile,
        )
        kernels = stack.enter_context(open_kernels(request))
        if len(kernels) != 1:
            raise ContractError(f"one kernel must be named, not {len(kernels)}; give the path of one code object")
        from mxassay.properties.kernel import Contract, KernelUnderTest, put_under_test

        own = subject.spec is None and subject.abi == "mxfp4-gemm"
        takes = Contract(*settled(subject.spec).takes)
        found = KernelUnderTest(kernels[0], chosen.name, chosen.tensors_on, takes, own)
        put_under_test(found)
        yield found


def diagnosed(
    failure: "Failure",
    kernel: "KernelUnderTest",
    *,
    quick: bool = False,
    seconds: float = 10.0,
    other_tritons: "Sequence[OtherTriton]" = (),
) -> "Diagnosis":
    """What is wrong with the open kernel, by all that can be asked on its device.

    `quick` leaves out source or compiler, which compiles the kernel in other ways. `seconds` as for
    `mxassay.triage.diagnose.diagnose`. `other_tritons` compile the kernel too where the compiler may be to blame.
    """
    from mxassay.triage.diagnose import diagnose
    from mxassay.triage.rerun import on

    run = on(kernel)
    looked: list[XRay] = []

    def xray(case: "Failure") -> "XRay":
        from mxassay.triage.xray import xray as look

        looked.append(look(case, run))
        return looked[-1]

    def blame(case: "Failure") -> "Blame":
        from mxassay.elsewhere import on_interpreter
        from mxassay.triage.blame import blame as find

        others = [other.compiled for other in other_tritons]
        return find(case, run, on_interpreter, looked[-1] if looked else None, others=others)

    seen = kernel.device == "emulated" and kernel.kernel.abi != "gpumode"
    source = kernel.device == "emulated" and kernel.kernel.abi == "mxfp4-gemm"
    return diagnose(
        failure,
        run,
        kernel=kernel,
        xray=xray if seen else None,
        blame=blame if source and not quick else None,
        seconds=seconds,
    )


def of_shapes(kernel: "KernelUnderTest", shapes: "Iterable[Shape]", seed: int = 0) -> "Iterator[Call]":
    """Products of those of the shapes that the kernel takes, under its own plan: the inputs of `mxassay check`, then a
    ramp of scales.

    Raises ContractError where it takes none of them.
    """
    from mxassay.cases import Case, drawn
    from mxassay.properties.kernel import Launch, Placement
    from mxassay.properties.operands import Operands
    from mxassay.properties.strategies.matrices import ramped

    dialect = kernel.kernel.dialect
    wanted = list(shapes)
    taken = [shape for shape in wanted if kernel.contract.admits(shape)]
    if not taken:
        takes = "M={}, N={}, K={}".format(*kernel.contract.multiples)
        raise ContractError(f"--shapes must hold multiples of {takes}, not {','.join(map(str, wanted[0]))}")
    for shape in taken:
        a, _, weights = drawn(Case(shape, seed, dialect))
        checked = Operands(a, weights.packed, weights.scales, dialect, f"seed {seed}")
        plan = kernel.kernel.plan_for(*shape) if kernel.own and kernel.kernel.plan_for else None
        yield checked, Launch(plan), Placement()
        yield ramped(shape, seed), Launch(plan), Placement()


def called(
    kernel: "Kernel", case: "Case", device: "Device", takes: "Shape", subject: "Subject"
) -> "tuple[Failure, KernelUnderTest]":
    """The call that a case of `mxassay check` stands for, with what comes of it now, and the kernel as the suite sees
    it. `kernel` and `device` must be open; `takes`: the multiples that M, N and K must be of."""
    from mxassay.cases import drawn
    from mxassay.properties.kernel import Contract, KernelUnderTest, Launch, Placement, put_under_test
    from mxassay.properties.operands import Operands
    from mxassay.triage.failure import Failure
    from mxassay.triage.rerun import again, on

    own = kernel.plan_for is not None
    under_test = KernelUnderTest(kernel, device.name, device.tensors_on, Contract(*takes), own)
    put_under_test(under_test)
    a, _, w = drawn(case)
    operands = Operands(a, w.packed, w.scales, case.dialect, f"seed {case.seed}")
    failure = Failure(subject, operands, Launch(case.plan if own else None), Placement(), None)
    return again(failure, on(under_test)), under_test


def save_failing(
    checked: "Iterable[tuple[Kernel, Case, CaseRecord]]",
    device: "Device",
    takes: "Shape",
    subject: "Callable[[Kernel], Subject]",
    folder: str,
) -> list[Path]:
    """Write a case file into `folder` for each case that failed or raised, and return their paths."""
    from mxassay.triage.casefile import save

    written = []
    for kernel, case, record in checked:
        if record.verdict in (Verdict.FAIL, Verdict.ERROR):
            failure, _ = called(kernel, case, device, takes, subject(kernel))
            m, n, k = case.shape
            name = f"{Path(kernel.name.partition(':')[0]).stem}-{m}x{n}x{k}-seed{case.seed}.json"
            written.append(save(failure, Path(folder, name)))
    return written


def save_property(property_id: str, error: BaseException, option: "Callable[[str], Any]", folder: Path) -> Path:
    """Write a case file for a property that has just failed in this process, from the kernel's last call; where there
    was none, for the failure in words. `option` gives the options of the pytest plugin. Returns the path."""
    from mxassay.loading import abi_of
    from mxassay.properties.claims import running
    from mxassay.triage.casefile import save
    from mxassay.triage.failure import Failure, Subject
    from mxassay.triage.rerun import fails, sentence
    from mxassay.triage.screen import nothing

    spec, tile = option("--mx-kernel"), option("--mx-tile")
    sides = tuple(int(size) for size in tile.split("x")) if tile else None
    subject = Subject(
        spec,
        option("--mx-abi") or abi_of(spec),
        device(option("--mx-device")).name,
        option("--mx-aiter"),
        sides,  # type: ignore[arg-type]
    )
    failure = nothing(subject, property_id, sentence(error))
    if running.call is not None:
        operands, launch, placement, out = running.call
        called = Failure(subject, operands, launch, placement, out, property_id)
        # Another call may be to blame, or something else than outputs: then words say what is wrong.
        failure = called if out is not None and fails(called) else replace(called, out=None, error=sentence(error))
    number = sum(1 for _ in folder.glob(f"{property_id}*.json")) if folder.is_dir() else 0
    return save(failure, folder / f"{property_id}{f'-{number + 1}' if number else ''}.json")


def kept_case(smallest: "Failure", place: str | None = None) -> str | None:
    """Write the case file `place`, or one in the user's data folder, named by its content, and return its path; None
    where there is no call to make again.

    Raises ContractError where the named file can't be written, UnsupportedError where the folder can't.
    """
    from mxassay.triage.casefile import dumps, save
    from mxassay.triage.failure import is_call

    if not is_call(smallest):
        return None
    if place is None:
        digest = hashlib.sha256(dumps(smallest).encode()).hexdigest()[:12]
        m, n, k = smallest.operands.shape
        file = (
            cases_folder()
            / f"{Path((smallest.subject.spec or 'mxassay').partition(':')[0]).stem}-{m}x{n}x{k}-{digest}.json"
        )
    else:
        file = Path(place)
    try:
        return str(save(smallest, file))
    except OSError as error:
        words = f"the case file must be one that can be written, not {file}: {error.strerror}"
        if place is not None:
            raise ContractError(words) from error
        raise UnsupportedError(f"{words}; name one with --save FILE") from error


def cases_folder() -> Path:
    """Where cases go that nobody named a file for, beside the history."""
    from mxassay.triage.versions.history import data_folder

    return data_folder() / "cases"


def replay_of(smallest: "Failure", saved: str | None = None) -> "Replay":
    """How to run a case again. `saved`: its file; a page can do without, since it says what to write into case.json."""
    from mxassay.triage.casefile import dumps
    from mxassay.triage.failure import is_call
    from mxassay.triage.report import Replay
    from mxassay.triage.script import to_script

    if not is_call(smallest):
        return Replay(_triage_of(smallest.subject), environment=environment())
    command = f"mxassay replay {shlex.quote(saved or 'case.json')}"
    return Replay(command, to_script(smallest), dumps(smallest), environment())


def _triage_of(subject: "Subject") -> str:
    words = ["mxassay", "triage", *([subject.spec] if subject.spec else []), "--device", subject.device]
    words += ["--aiter", subject.aiter] if subject.aiter else []
    words += ["--tile", "x".join(map(str, subject.tile))] if subject.tile else []
    return shlex.join(words)
