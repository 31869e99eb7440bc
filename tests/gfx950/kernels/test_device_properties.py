"""What launch code asks of the card before it launches: the persistent softmax's own sum."""

import triton


def test_the_properties_of_triton_s_hip_driver_are_all_there():
    properties = triton.runtime.driver.active.utils.get_device_properties(0)
    # Triton's third_party/amd/backend/driver.c, getDeviceProperties.
    assert set(properties) == {
        "max_shared_mem", "max_num_regs", "multiprocessor_count", "sm_clock_rate", "mem_clock_rate", "mem_bus_width",
        "arch", "warpSize", "max_threads_per_sm", "cooperativeLaunch",
    }  # fmt: skip


def test_programs_that_fit_a_compute_unit():
    properties = triton.runtime.driver.active.utils.get_device_properties(0)
    registers, warps = 64, 8
    waves = properties["max_threads_per_sm"] // properties["warpSize"]
    fit = min(2 * properties["max_num_regs"] // properties["warpSize"] // registers, waves) // warps
    assert (properties["multiprocessor_count"], waves, fit) == (256, 32, 4)
