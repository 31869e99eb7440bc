"""What the core tells an observer about a launch as a whole, and about its arguments."""

import numpy as np
import pytest
import torch

from mxassay.gfx950 import MemoryFault
from mxassay.gfx950.hostmemory import HostMemory
from mxassay.gfx950.memory import View


class Log:
    def __init__(self):
        self.said = []

    def begin(self, launch):
        self.said.append(("begin", launch.code.name, launch.grid, launch.block, launch.lds_bytes))
        self.views = list(launch.memory.views)

    def end(self, error):
        self.said.append(("end", type(error).__name__))

    def before(self, cohort, inst): ...

    def access(self, cohort, inst, access): ...

    def after(self, cohort, inst): ...

    def barrier(self, groups): ...


def test_an_observer_hears_of_a_launch_and_of_its_end(plant, words):
    log = Log()
    plant("global_store_dword v1, v0, s[4:5]", lds=512).run(log, words(), words(8), grid=3)
    assert log.said == [("begin", "planted", (3, 1, 1), (64, 1, 1), 512), ("end", "NoneType")]
    assert [(view.name, view.shape) for view in log.views] == [("argument 0", (64,)), ("argument 1", (8,))]


def test_an_observer_hears_of_the_error_that_stopped_a_launch(plant, words):
    log = Log()
    with pytest.raises(MemoryFault):
        plant("global_store_dword v1, v0, s[4:5]").run(log, words(63), words())
    assert log.said[-1] == ("end", "MemoryFault")


def test_a_view_of_a_tensor_says_where_its_elements_lie():
    memory = HostMemory()
    whole = torch.zeros(8, 16, dtype=torch.int16)
    address = memory.address_of("x", whole[2:, 4::2])
    (segment,) = memory.space
    assert address == segment.base + 2 * (2 * 16 + 4)
    assert memory.space.views == [View("x", address, (6, 6), (32, 4), 2)]


def test_a_view_of_an_array_says_where_its_elements_lie():
    memory = HostMemory()
    whole = np.zeros((4, 6), np.float32)
    address = memory.address_of("x", whole[::2, 1:])
    (segment,) = memory.space
    assert memory.space.views == [View("x", segment.base + 4, (2, 5), (48, 4), 4)]
    assert address == segment.base + 4


@pytest.mark.parametrize(
    "text",
    [
        "global_load_dword v2, v1, s[4:5] offset:4",
        "ds_write_b32 v1, v0 offset:4",
        "scratch_store_dword off, v0, off offset:16",
    ],
)
def test_an_access_that_faults_is_not_told(plant, words, text):
    class Accesses(Log):
        def access(self, cohort, inst, access):
            self.said.append(access.space)

    log = Accesses()
    with pytest.raises(MemoryFault):
        plant(text, lds=256, scratch=16).run(log, words(), words())
    assert set(log.said[1:-1]) == {"scalar"}
