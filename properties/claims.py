"""How a test says which property it claims, and how many examples that deserves."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from hypothesis import seed, settings

from mxassay.errors import ContractError
from mxassay.profiles import PROFILES, loaded, register, seed_in_force
from mxassay.properties.catalogue import CATALOGUE, Property

Test = TypeVar("Test", bound=Callable[..., Any])


@dataclass
class Running:
    """The test that runs now. `examples` counts how often its body was entered; `refusal` is what a kernel that takes
    fewer shapes than were drawn said last, `violation` the first failure that was seen, `call` the last call of the
    kernel: operands, launch, placement, and what came out (None where it raised)."""

    property: Property | None = None
    examples: int = 0
    replay: str = ""
    refusal: str = ""
    violation: Exception | None = None
    call: tuple[Any, Any, Any, Any] | None = None


running = Running()
"""Set by the pytest plugin around each test; a process runs one test at a time."""


def claim(name: str, examples: float = 1.0, seconds: float = 0.0) -> Callable[[Test], Test]:
    """Outermost decorator of a test: it claims the property `name` of the catalogue.

    `seconds`: of a test that takes long, roughly how many in the quick profile. Where several processes share the
    tests, the longest go first.

    A Hypothesis test gets `examples` times what the profile gives an average property, and the session's seed, which in
    the quick profile is fixed: two runs draw the same examples, need the same compiled kernels and say the same.
    """
    if name not in CATALOGUE:
        raise ContractError(f"a claimed property must be one of {', '.join(CATALOGUE)}, not {name}")

    def decorate(test: Test) -> Test:
        test = pytest.mark.mx_property(name, seconds=seconds)(test)
        handle = getattr(test, "hypothesis", None)
        if handle is None:
            return test
        handle.inner_test = _counted(handle.inner_test)
        # A seed switches the example database off; settings that come after it bring it back.
        test = seed(seed_in_force())(test)
        return budget(examples)(test)

    return decorate


def budget(examples: float, **more: Any) -> settings:
    """The profile in force, with `examples` times its examples, and other settings."""
    register()
    return settings(settings.get_profile(loaded()), max_examples=scaled(examples), **more)


def quick() -> bool:
    """Whether the profile in force is the quick one."""
    return loaded() == "quick"


def scaled(examples: float) -> int:
    """`examples` times the profile's, at least two."""
    return max(2, round(PROFILES[loaded()] * examples))


def _counted(body: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(body)
    def counted(*args: Any, **kwargs: Any) -> Any:
        running.examples += 1
        return body(*args, **kwargs)

    return counted
