"""Hypothesis profiles, in one place: how many examples a property gets. Loads neither torch nor triton."""

import os

from hypothesis import HealthCheck, settings

PROFILES = {"quick": 25, "thorough": 250, "nightly": 2500}
"""Examples by profile, for a property of average cost; `mxassay.properties.claims.claim` scales them.

`quick` draws the same ones each time, the others new ones: `mxassay check` and `mxassay faults` run quick's first.
"""

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
    """Make `name` the profile in force. `database`: a folder, or redis://HOST:PORT/DB for many machines."""
    register()
    if database is not None:
        settings.register_profile(name, settings.get_profile(name), database=_database(database))
    settings.load_profile(name)
    _loaded[:] = [name]


def loaded() -> str:
    """The profile in force: the one that was loaded, else what HYPOTHESIS_PROFILE says, else quick."""
    named = _loaded[0] if _loaded else os.environ.get("HYPOTHESIS_PROFILE", "quick")
    return named if named in PROFILES else "quick"


def _database(place: str) -> object:
    if place.startswith("redis://"):
        from hypothesis.extra.redis import RedisExampleDatabase
        from redis import Redis

        return RedisExampleDatabase(Redis.from_url(place))
    from hypothesis.database import DirectoryBasedExampleDatabase

    return DirectoryBasedExampleDatabase(place)
