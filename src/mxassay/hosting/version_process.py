"""The process that runs versions of a kernel: warm, with torch and Triton loaded, and a fork of itself for each.

python -m mxassay.hosting.version_process: one JSON request a line on standard input, one JSON answer a line on standard
output. No kernel is ever loaded in the process that listens, so none can leave anything behind for the next one.
"""

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

_threads: list[int] = []  # how many torch wanted before it was held to one


def main() -> None:
    """Answer requests until standard input ends. An answer is {"ended": how the fork ended}: "" where it did well."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # as on the emulated card
    os.dup2(2, 1)  # whatever prints must not mix with the answers
    _warm()
    for line in sys.stdin:
        ended = _forked(json.loads(line))
        print(json.dumps({"ended": ended}), file=answers, flush=True)


def _warm() -> None:
    """Load what every version needs; single-threaded, since a fork of threads hangs."""
    import torch

    _threads.append(torch.get_num_threads())
    torch.set_num_threads(1)
    import triton  # noqa: F401

    import mxassay.gfx950.driver
    import mxassay.gfx950.registry
    import mxassay.loading
    import mxassay.properties.operands
    import mxassay.triage.versions.figures  # noqa: F401

    if os.environ.get("TRITON_INTERPRET") != "1":
        from mxassay.hosting.warming import compile_once

        compile_once()


def _forked(request: dict[str, Any]) -> str:
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setsid()
            _child(request)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    try:
        waited = _waited(child, time.monotonic() + request["limit"])
    except BaseException:  # interrupted, or nobody waits for the answer any more
        os.killpg(child, signal.SIGKILL)
        raise
    if waited is None:
        return f"the process must end within {request['limit']:g} s, but still ran"
    if os.WIFSIGNALED(waited):
        return f"the process ended by {signal.Signals(os.WTERMSIG(waited)).name}"
    code = os.WEXITSTATUS(waited)
    return f"the process ended with status {code}" if code else ""


def _waited(child: int, deadline: float) -> int | None:
    """The wait status of a fork; None where it was killed at the deadline. Ends with whoever started this process."""
    parent = os.getppid()
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        if os.getppid() != parent:
            raise SystemExit("the process that asked is gone")
        time.sleep(0.005)


def _child(request: dict[str, Any]) -> None:
    """Open the version and run the jobs. Each result is a line of results.jsonl, with its output in N.pt beside it."""
    folder = Path(request["folder"])
    log = os.open(folder / "printed.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.dont_write_bytecode = True
    import torch

    torch.set_num_threads(_threads[0])
    from mxassay.devices import device
    from mxassay.errors import MxassayError

    with (folder / "results.jsonl").open("a", encoding="utf-8") as results, _reading(request["tree"]) as read:

        def tell(**record: Any) -> None:
            print(json.dumps(record), file=results, flush=True)

        try:
            with device(request["device"]).open(), _opened(request) as kernel:
                tell(opened=True)
                if request["diagnosis"]:
                    _diagnose(kernel, request["jobs"][0][1], request)
                for number, job in [] if request["diagnosis"] else request["jobs"]:
                    tell(began=number)
                    tell(number=number, **_run(kernel, job, request, folder / f"{number}.pt"))
        except MxassayError as error:
            tell(unopened=_without(str(error), request["tree"]))
        finally:
            tell(read=sorted(read))


@contextmanager
def _reading(tree: str | None) -> Iterator[set[str]]:
    """The files below `tree` that are opened from here on, by path inside it. Only in a process about to end: a hook
    for audits can't be taken away.
    """
    found: set[str] = set()
    start = os.path.join(os.path.realpath(tree), "") if tree else None

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and start is not None and isinstance(arguments[0], str):
            path = os.path.realpath(arguments[0])
            if path.startswith(start):
                found.add(path.removeprefix(start))

    sys.addaudithook(hook)
    yield found


@contextmanager
def _opened(request: dict[str, Any]) -> Iterator[Any]:
    import mxassay
    from mxassay.errors import MxassayError, UnsupportedError
    from mxassay.loading import Request, open_kernels

    if request["own"]:
        # Before `mxassay.optimized` is imported: this version's package instead of the installed one.
        mxassay.__path__.insert(0, str(Path(request["own"]).parent))
    spec = _importable(request["spec"], request["tree"])
    tile = tuple(request["tile"]) if request["tile"] else None
    wanted = Request(
        spec, request["abi"], request["dialect"], request["device"], request["aiter"], tile, seconds=request["limit"]
    )
    with ExitStack() as stack:
        try:
            kernel = _with_plans(stack.enter_context(open_kernels(wanted))[0], spec)
        except MxassayError:
            raise
        except BaseException as error:  # SystemExit too: a version that exits has not opened
            raise UnsupportedError(f"the version must import, not raise {type(error).__name__}: {error}") from error
        yield kernel


def _importable(spec: str | None, tree: str | None) -> str | None:
    """The spec, with its neighbours importable: of a file in a package, as `package.module:attr`."""
    from mxassay.triage.versions.digest import package_of

    if spec is None or tree is None:
        return spec
    where, colon, attribute = spec.partition(":")
    file = Path(where)
    sys.path[:0] = [str(file.parent), tree]
    package = package_of(file)
    if file.suffix != ".py" or package is None or not attribute:
        return spec
    sys.path[0] = str(package.parent)
    return ".".join(file.relative_to(package.parent).with_suffix("").parts) + colon + attribute


def _with_plans(kernel: Any, spec: str | None) -> Any:
    """A kernel that takes `plan=`, beside a `plan_for(m, n, k)` in its module, is launched with plans as ours is."""
    import inspect
    from dataclasses import replace

    from mxassay.declaration import declared
    from mxassay.kernels import GemmArguments, Returned

    if kernel.abi != "mxfp4-gemm" or spec is None:
        return kernel
    where, _, name = spec.partition(":")
    module = sys.modules.get(f"mxassay_kernel_{Path(where).stem}" if where.endswith(".py") else where)
    function, plan_for = getattr(module, name, None), getattr(module, "plan_for", None)
    try:
        takes = callable(function) and "plan" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        takes = False
    if function is None or not callable(plan_for) or not takes:
        return kernel
    told = declared(spec)

    def call(x: GemmArguments, plan: object) -> Returned:
        return Returned(function(x.a, *told.arranged(x), plan=plan))

    return replace(kernel, call=call, plan_for=plan_for)


def _run(kernel: Any, job: dict[str, Any], request: dict[str, Any], place: Path) -> dict[str, Any]:
    """Run one job, write its output, and say what else there is to say."""
    from contextlib import nullcontext

    import torch

    from mxassay.arenas import GuardedAllocations
    from mxassay.errors import ContractError, UnsupportedError
    from mxassay.hosting.version_jobs import NoSuchPlanError, arenas_of, case_of, plan_from, planned

    case = case_of(job["case"])
    record: dict[str, Any] = {
        "plan": None,
        "words": "own",
        "error": "",
        "refused": False,
        "planless": False,
        "figures": None,
    }
    started = time.perf_counter()
    figures: Any = nullcontext({})
    if job["counted"] and request["device"] == "emulated":
        from mxassay.triage.versions.figures import counting

        figures = counting()
    try:
        plan = kernel.plan_for(*case.shape) if kernel.plan_for else None
        if job["plan"] is not None:
            plan = plan_from(plan, job["plan"])
        record |= planned(plan)
        arguments, arenas = arenas_of(case, request["tensors_on"])
        allocations = GuardedAllocations()
        with figures as counted, allocations:
            out = kernel.call(arguments, plan).out
        if isinstance(out, torch.Tensor):
            torch.save(out.detach().resolve_neg().cpu().contiguous(), place)
        else:
            record["error"] = f"the output must be a tensor, not {type(out).__name__}"
        strays = [f"{arena.name}: written" for arena in arenas if arena.changed()]
        strays += [f"around {name}: written" for name in allocations.overruns()]
        if strays:
            record["error"] = f"inputs and the bytes around buffers must be left alone, not {'; '.join(strays)}"
        record["figures"] = counted
    except NoSuchPlanError as error:
        record |= {"error": str(error), "planless": True}
    except (ContractError, UnsupportedError) as error:
        record |= {"error": str(error), "refused": True}
    except BaseException as error:
        record["error"] = f"{type(error).__name__}: {error}"
    record["error"] = _without(record["error"], request["tree"])
    return {**record, "seconds": time.perf_counter() - started}


def _diagnose(kernel: Any, job: dict[str, Any], request: dict[str, Any]) -> None:
    """Make the call of the job, which failed before, and write what is wrong with it to the file `diagnosis`."""
    from dataclasses import replace

    import torch

    from mxassay.hosting.version_jobs import case_of, plan_from, planned
    from mxassay.properties.kernel import KernelUnderTest, Launch, Placement, put_under_test
    from mxassay.triage.failure import Failure, Subject
    from mxassay.triage.rerun import again, on
    from mxassay.triage.versions.change import Planned
    from mxassay.triaging import diagnosed

    own = request["spec"] is None
    spec = _elsewhere(request)
    under_test = KernelUnderTest(kernel, request["device"], request["tensors_on"], own=own)
    put_under_test(under_test)
    operands = case_of(job["case"]).operands()
    # Suspects know what our plans say; a foreign kernel plans for itself.
    plan = kernel.plan_for(*operands.shape) if own else None
    if own and job["plan"] is not None:
        plan = plan_from(plan, job["plan"])
    subject = Subject(
        spec, kernel.abi, request["device"], request["aiter"],
        tuple(request["tile"]) if request["tile"] else None,
    )  # fmt: skip
    failure = again(Failure(subject, operands, Launch(plan), Placement(), None), on(under_test))
    found = diagnosed(failure, under_test)

    def sent(case: Failure) -> Failure:
        """The kernel by its own name, and the plan as no type of this version: whoever reads knows neither."""
        case = replace(case, subject=replace(subject, spec=None if own else request["name"]))
        if case.launch.plan is None:
            return case
        said = planned(case.launch.plan)
        return replace(case, launch=replace(case.launch, plan=Planned(said["words"], said["plan"])))

    torch.save(replace(found, failure=sent(found.failure), shrunk=sent(found.shrunk)), request["diagnosis"])


def _elsewhere(request: dict[str, Any]) -> str | None:
    """How another process opens this version, and not whatever lies where the user is: from here on, the environment
    leads there.
    """
    path = list(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    if request["own"]:
        import shutil

        from mxassay.properties.faults.tree import snapshot

        tree = snapshot(Path(request["folder"]) / "tree").root
        shutil.rmtree(tree / "optimized")
        shutil.copytree(request["own"], tree / "optimized")
        path.insert(0, str(tree / "src"))
        spec = None
    else:
        before = len(sys.path)
        spec = _importable(request["spec"], request["tree"])
        path[:0] = sys.path[: len(sys.path) - before]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    return spec


def _without(text: str, tree: str | None) -> str:
    """Texts of two versions are compared: where their files happen to lie must not tell them apart."""
    return text.replace(tree, "TREE") if tree else text


if __name__ == "__main__":
    main()
