"""The HIP driver against a stand-in of libamdhip64 whose functions are called through C's ABI and whose card is the
emulated one: order and arguments of every call, copies there and back, and failures."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from mxassay.errors import UnsupportedError
from mxassay.gfx950 import Kernel, load_code_object
from mxassay.gfx950.hostmemory import HostMemory
from mxassay.gfx950.probe import QUESTIONS, EmulatedCard, HipCard, HipError, ask, why_no_card

P, INT, UINT, SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_size_t


class StandIn(SimpleNamespace):
    """`fails` maps a function's name to the error it returns."""

    def __init__(self, devices=1, fails=None):
        super().__init__()
        self.devices, self.fails = devices, fails or {}
        self.buffers, self.modules, self.functions, self.called = {}, {}, {}, []
        for name, arguments, body in [
            ("hipInit", [UINT], lambda flags: None),
            ("hipGetDeviceCount", [P], lambda out: self.put(out, INT, self.devices)),
            ("hipSetDevice", [INT], lambda index: None),
            ("hipDeviceGetName", [P, INT, INT], self.name),
            ("hipRuntimeGetVersion", [P], lambda out: self.put(out, INT, 70200000)),
            ("hipDriverGetVersion", [P], lambda out: self.put(out, INT, 70200001)),
            ("hipMalloc", [P, SIZE], self.malloc),
            ("hipFree", [P], self.buffers.pop),
            ("hipMemcpy", [P, P, SIZE, INT], self.copy),
            ("hipDeviceSynchronize", [], lambda: None),
            ("hipModuleLoadData", [P, P], self.load),
            ("hipModuleUnload", [P], self.modules.pop),
            ("hipModuleGetFunction", [P, P, ctypes.c_char_p], self.function),
            ("hipModuleLaunchKernel", [P, *[UINT] * 7, P, P, P], self.launch),
        ]:
            setattr(self, name, self.exported(name, arguments, body))

    def exported(self, name, arguments, body):
        def call(*values):
            self.called.append(name)
            if name in self.fails:
                return self.fails[name]
            body(*values)
            return 0

        # A new prototype each time: the card sets argument types on the function itself.
        return ctypes.CFUNCTYPE(INT, *arguments)(call)

    @staticmethod
    def put(where, kind, value):
        kind.from_address(where).value = value

    def name(self, out, size, index):
        assert (size, index) == (256, 0)
        ctypes.memmove(out, b"AMD Instinct MI355X\0", 20)

    def malloc(self, out, size):
        buffer = np.zeros(size, np.uint8)
        self.buffers[buffer.ctypes.data] = buffer
        self.put(out, P, buffer.ctypes.data)

    def copy(self, to, source, size, kind):
        inside, outside = (to, source) if kind == 1 else (source, to)
        assert kind in (1, 2)
        assert self.buffers[inside].size >= size
        assert outside not in self.buffers
        ctypes.memmove(to, source, size)

    def load(self, out, data):
        self.modules[1] = load_code_object(ctypes.string_at(data, 1 << 16 if not self.size else self.size))
        self.put(out, P, 1)

    size = 0

    def function(self, out, module, name):
        key = 100 + len(self.functions)
        self.functions[key] = Kernel(self.modules[module], name.decode())
        self.put(out, P, key)

    def launch(self, function, gx, gy, gz, bx, by, bz, shared, stream, params, extra):
        assert (shared, stream, params) == (0, None, None)
        markers = (P * 5).from_address(extra)
        assert (markers[0], markers[2], markers[4]) == (1, 2, 3)
        kernarg = ctypes.string_at(markers[1], SIZE.from_address(markers[3]).value)
        memory = HostMemory()
        emulated = b"".join(
            memory.address_of("buffer", self.buffers[int(pointer)]).to_bytes(8, "little")
            for pointer in np.frombuffer(kernarg, "<u8")
        )
        self.functions[function].run(memory.space, (gx, gy, gz), (bx, by, bz), emulated)


@pytest.fixture
def library():
    from mxassay.gfx950.probe import code_object

    found = StandIn()
    found.size = len(code_object())
    return found


ASKED = ["cvt.fp4.finite", "mfma.scaled.ties", "start.exec", "start.preload", "lds.m0_width"]


def test_a_card_behind_hip_gives_the_same_answers(library):
    direct, through = ask(EmulatedCard(), ASKED), ask(HipCard(library=library), ASKED)
    assert through.kind == "mi355x"
    assert dict(through.environment) == {
        "device": "AMD Instinct MI355X",
        "hip_runtime": "70200000",
        "hip_driver": "70200001",
    }
    for identity in ASKED:
        assert (direct.answers[identity].outputs == through.answers[identity].outputs).all()


def test_the_module_is_loaded_once_and_every_buffer_freed(library):
    card = HipCard(library=library)
    ask(card, ASKED)
    assert library.called[:3] == ["hipInit", "hipGetDeviceCount", "hipSetDevice"]
    assert library.called.count("hipModuleLoadData") == 1
    assert library.called.count("hipMalloc") == library.called.count("hipFree") == 2 * 2 * len(ASKED)
    assert library.buffers == {}
    for position, name in enumerate(library.called):
        if name == "hipModuleLaunchKernel":
            assert library.called[position + 1] == "hipDeviceSynchronize"


@pytest.mark.parametrize("name", ["hipMalloc", "hipMemcpy", "hipModuleLaunchKernel", "hipDeviceSynchronize"])
def test_a_failing_call_is_an_answer_refused_and_frees_what_it_had(library, name):
    card = HipCard(library=library)
    library.fails = {name: 719}
    answer = ask(card, ["start.exec"]).answers["start.exec"]
    assert answer.outputs is None
    assert answer.refused == f"HipError: {name} must return hipSuccess, not hipError_t 719"
    assert library.buffers == {}


def test_a_card_of_another_kind_is_unsupported():
    library = StandIn(fails={"hipModuleLoadData": 209})
    card = HipCard(library=library)
    with pytest.raises(UnsupportedError, match="the card must be a gfx950, not one that refuses its code"):
        card.run(b"\x7fELF", "x", (1, 1, 1), (64, 1, 1), [])


@pytest.mark.parametrize(("devices", "index"), [(0, 0), (2, 2), (1, -1)])
def test_an_absent_device_is_unsupported(devices, index):
    with pytest.raises(UnsupportedError, match=f"the HIP device must be one of {devices}, not number {index}"):
        HipCard(index, StandIn(devices))


def test_a_runtime_that_fails_at_once_says_which_call():
    with pytest.raises(HipError, match="hipInit must return hipSuccess, not hipError_t 100") as failure:
        HipCard(library=StandIn(fails={"hipInit": 100}))
    assert failure.value.code == 100


def test_without_rocm_there_is_a_reason():
    reason = why_no_card()
    if reason is None:
        pytest.skip("this machine has a HIP device")
    known = ("libamdhip64.so must be on the loader's path, not missing", "the HIP device must be", "hip")
    assert reason.startswith(known)


@pytest.mark.skipif(why_no_card() is not None, reason=f"a real MI355X is needed: {why_no_card()}")
def test_a_real_card_answers_every_control_as_is_certain():
    from mxassay.gfx950.probe import contradictions

    record = ask(HipCard())
    assert contradictions(record) == ()
    assert set(record.answers) == set(QUESTIONS)
