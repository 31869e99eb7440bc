"""pytest options and fixtures. Loaded with every pytest run, so it imports neither torch nor triton."""

import os
from collections.abc import Iterator

import pytest

from mxassay.devices import DEVICES, Device, device
from mxassay.errors import UnsupportedError

_NEEDS = {
    "mi355x": "needs a real MI355X (gfx950)",
    "cuda": "needs a CUDA GPU",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--mx-device`, like `mxassay check --device`."""
    group = parser.getgroup("mxassay")
    group.addoption("--mx-device", default="interpreter", help=f"device to run kernels on: auto, {', '.join(DEVICES)}")


def pytest_configure(config: pytest.Config) -> None:
    """Markers for tests that only make sense on one device; torch's threads wait without spinning."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # the workers are the parallelism
    for name, need in _NEEDS.items():
        config.addinivalue_line("markers", f"{name}: {need}; skipped elsewhere, with the reason")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what the chosen device can't run."""
    chosen = config.getoption("--mx-device")
    for item in items:
        for name, need in _NEEDS.items():
            if item.get_closest_marker(name) and chosen != name:
                item.add_marker(pytest.mark.skip(reason=f"{need}: run with --mx-device {name}"))


@pytest.fixture(scope="session")
def mx_device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """The device under test, open for the whole session. Ask for it before importing any kernel."""
    try:
        chosen = device(request.config.getoption("--mx-device"))
    except UnsupportedError as error:
        pytest.skip(str(error))
    with chosen.open():
        yield chosen
