"""Hypothesis profiles, in one place: how many examples a property gets. Loads neither torch nor triton."""

import os
import random

from hypothesis import HealthCheck, settings

from mxassay.errors import ContractError

PROFILES = {"quick": 25, "thorough": 250, "nightly": 2500}
"""Examples by profile, for a property of average cost; `mxassay.properties.claims.claim` scales them.

`quick` draws the same ones each time, the others new ones: `mxassay check` and `mxassay faults` run quick's first.
"""

SEED = 748756  # any constant
"""What the quick profile draws from, so that two runs draw the same examples and need the same compiled kernels."""

_SEED_VARIABLE = "MXASSAY_RANDOM_SEED"  # in the environment, so that the workers of pytest-xdist have it

_registered: list[bool] = []
_loaded: list[str] = []


def register() -> None:
    """Make the profiles known to Hypothesis. Calling it again changes nothing."""
    if _registered:
        return
    _registered.append(True)
    for name, examples in PROFILES.items():
        settings.register_profile(
            name,
            max_examples=examples,
            deadline=None,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        )


def load(name: str, database: str | None = None) -> None:
    """Make `name` the profile in force. `database`: a folder, or redis://HOST:PORT/DB for many machines.

    Raises ContractError where a Redis server is named that can't be used.
    """
    register()
    if database is not None:
        settings.register_profile(name, settings.get_profile(name), database=_database(database))
    settings.load_profile(name)
    _loaded[:] = [name]


def loaded() -> str:
    """The profile in force: the one that was loaded, else what HYPOTHESIS_PROFILE says, else quick."""
    named = _loaded[0] if _loaded else os.environ.get("HYPOTHESIS_PROFILE", "quick")
    return named if named in PROFILES else "quick"


def settle_seed(seed: int | None) -> int:
    """Make `seed` what examples are drawn from; None for what the profile says: SEED in quick, else any number."""
    number = seed if seed is not None else SEED if loaded() == "quick" else random.SystemRandom().randrange(1 << 32)
    os.environ[_SEED_VARIABLE] = str(number)
    return number


def seed_in_force() -> int:
    """What examples are drawn from."""
    return int(os.environ.get(_SEED_VARIABLE, SEED))


def _database(place: str) -> object:
    if place.startswith(("redis://", "rediss://", "unix://")):
        try:
            from hypothesis.extra.redis import RedisExampleDatabase
            from redis import Redis, RedisError
        except ImportError as error:
            raise ContractError(
                f"redis must be installed for a database at {place}, not missing; pip install 'mxassay[redis]'"
            ) from error
        server = Redis.from_url(place)
        try:
            server.ping()
        except RedisError as error:
            raise ContractError(f"the database must be a Redis server that answers, not {place}: {error}") from error
        return RedisExampleDatabase(server)
    from hypothesis.database import DirectoryBasedExampleDatabase

    return DirectoryBasedExampleDatabase(place)
