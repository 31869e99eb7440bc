"""A suspect: one stage of the reference, replaced by a wrong rule."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from mxassay.errors import ContractError
from mxassay.properties.faults import CLASSES, STAGES
from mxassay.triage.suspects.pipeline import Pipeline
from mxassay.triage.suspects.scene import Scene

RIGHT = Pipeline()


def always(scene: Scene) -> bool:
    """Whatever the call."""
    return True


@dataclass(frozen=True)
class Suspect:
    """A wrong rule.

    Attributes:
        id: words with hyphens, unique.
        class_: a key of `mxassay.properties.faults.CLASSES`. stage: one of `mxassay.properties.faults.STAGES`.
        statement: the wrong rule, in one sentence.
        changes: stages of a Pipeline and what takes their place.
        when: the calls in which the rule acts; elsewhere all is right.
        rank: among suspects that explain as much, lower is told first.
    """

    id: str
    class_: str
    stage: str
    statement: str
    changes: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    when: Callable[[Scene], bool] = always
    rank: int = 1

    def __post_init__(self) -> None:
        if self.class_ not in CLASSES:
            raise ContractError(f"class of suspect {self.id} must be one of {', '.join(CLASSES)}, not {self.class_}")
        if self.stage not in STAGES:
            raise ContractError(f"stage of suspect {self.id} must be one of {', '.join(STAGES)}, not {self.stage}")

    @cached_property
    def pipeline(self) -> Pipeline:
        """The stages with the wrong rule among them."""
        return replace(RIGHT, **self.changes)

    def in_scene(self, scene: Scene) -> Pipeline:
        """The stages as they act in this call."""
        return self.pipeline if self.when(scene) else RIGHT
