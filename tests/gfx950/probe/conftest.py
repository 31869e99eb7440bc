"""A card whose behaviour is planted, and the emulated card's answers, asked once."""

import numpy as np
import pytest

from mxassay.gfx950.probe import QUESTIONS, EmulatedCard, ask


class PlantedCard:
    """The emulated card, called a real one, that gives for some questions what a reading of theirs predicts."""

    kind = "mi355x"

    def __init__(self, readings=None, noise=()):
        self.readings, self.noise = dict(readings or {}), set(noise)
        self.emulated = EmulatedCard()
        self.calls = 0

    def environment(self):
        return {"device": "planted"}

    def run(self, code, kernel, grid, block, args):
        identity = next(question.id for question in QUESTIONS.values() if question.kernel_name == kernel)
        self.calls += 1
        if identity in self.readings:
            args[1][:] = QUESTIONS[identity].predictions[self.readings[identity]]
        else:
            self.emulated.run(code, kernel, grid, block, args)
        if identity in self.noise:
            args[1][0, 0, 0] ^= np.uint32(self.calls)


@pytest.fixture
def planted():
    return PlantedCard


@pytest.fixture(scope="session")
def record():
    return ask(EmulatedCard())
