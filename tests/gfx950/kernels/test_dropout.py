"""Dropout from a seed: Triton's Philox on the emulated card against Philox4x32-10 written from its paper (Salmon,
Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011)."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def dropout(x, out, count, p, seed, BLOCK: tl.constexpr):
    where = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = where < count
    kept = tl.rand(seed, where) > p
    value = tl.load(x + where, mask=inside)
    tl.store(out + where, tl.where(kept, value / (1 - p), 0.0), mask=inside)


@triton.jit
def integers(out, seed, BLOCK: tl.constexpr):
    where = tl.arange(0, BLOCK)
    a, b, c, d = tl.randint4x(seed, where)
    for index in tl.static_range(4):
        tl.store(out + index * BLOCK + where, (a, b, c, d)[index])


def philox(seed: int, counter: np.ndarray) -> list[np.ndarray]:
    """Ten rounds on counters (counter, 0, 0, 0) with the key (seed's low word, seed's high word)."""
    low = np.uint64(0xFFFFFFFF)
    words = [counter.astype(np.uint64), *(np.zeros_like(counter, np.uint64) for _ in range(3))]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * words[0], np.uint64(0xCD9E8D57) * words[2]
        words = [
            second >> np.uint64(32) ^ words[1] ^ np.uint64(key[0]), second & low,
            first >> np.uint64(32) ^ words[3] ^ np.uint64(key[1]), first & low,
        ]  # fmt: skip
        key = [key[0] + 0x9E3779B9 & 0xFFFFFFFF, key[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return [word.astype(np.uint32) for word in words]


def test_the_papers_known_answers():
    # Random123's known answers for Philox4x32-10 with key 0: of counter 0.
    assert [int(word[0]) for word in philox(0, np.zeros(1, np.uint32))] == [
        0x6627E8D5,
        0xE169C58D,
        0xBC57AC4C,
        0x9B00DBD8,
    ]


@pytest.mark.parametrize("seed", [0, 123, 2**31 - 1, 0x1234_5678_9ABC])
def test_every_random_word_is_philoxs(seed):
    out = torch.zeros(4, 512, dtype=torch.int32)
    integers[(1,)](out, seed, BLOCK=512)
    expected = np.stack(philox(seed, np.arange(512, dtype=np.uint32)))
    assert (out.numpy().view(np.uint32) == expected).all()


@pytest.mark.parametrize("seed", [123, 512])
def test_the_same_elements_are_dropped_every_time(seed, generator):
    x = torch.randn(1000, generator=generator)
    out, again = torch.full((1000,), 9.0), torch.empty(1000)
    dropout[(4,)](x, out, 1000, 0.5, seed, BLOCK=256)
    dropout[(2,)](x, again, 1000, 0.5, seed, BLOCK=512)
    assert torch.equal(out, again)
    # Triton: signed words are folded to 0..2^31-1 and scaled by a number just below 2^-31, so that 1 never occurs.
    word = philox(seed, np.arange(1000, dtype=np.uint32))[0].view(np.int32).astype(np.int64)
    uniform = np.where(word < 0, -word - 1, word).astype(np.float32) * np.float32(4.6566127342e-10)
    kept = torch.from_numpy(uniform > np.float32(0.5))
    assert torch.equal(out, torch.where(kept, x / 0.5, torch.zeros(())))
    assert 400 < int(kept.sum()) < 600
