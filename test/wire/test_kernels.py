"""The compiled loops of wire/ give what their plain forms in numpy give."""

import fastcrc
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim2real_deploy.wire import kernels
from sim2real_deploy.wire.messages import FAMILIES

LAYOUTS = [layout for family in FAMILIES.values() for layout in (family.state, family.command)]


@settings(max_examples=60, deadline=None)
@given(layout=st.sampled_from(LAYOUTS), seed=st.integers(0, 2**32 - 1), right=st.booleans())
def test_a_sample_is_checked_alike(layout, seed, right):
    rng = np.random.default_rng(seed)
    sample = rng.integers(0, 256, layout.size, dtype=np.uint8)
    summed = fastcrc.crc32.mpeg_2(sample[layout.crc_gather].data)
    sample.view(np.uint32)[-1] = summed if right else rng.integers(2**32)
    assert kernels.checksum(sample, layout.crc_gather) == summed
    places = rng.choice(layout.size // 4, 60)
    found, plain = np.zeros(60, np.float32), np.zeros(60, np.float32)
    sample.setflags(write=False)
    verdict = kernels.check(sample, layout.crc_gather, places, found)
    assert verdict == kernels.plain_check(sample, layout.crc_gather, places, plain)
    assert found.tobytes() == plain.tobytes()
    assert (verdict == kernels.BAD_CRC) == (not right)


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.floats(width=32), min_size=10, max_size=10),
    layout=st.sampled_from([family.command for family in FAMILIES.values()]),
)
def test_a_command_is_filled_in_alike(values, layout):
    command = np.array(values, np.float32).reshape(5, 2)
    places = np.arange(10).reshape(5, 2) * 3 + 8
    found, plain = np.zeros(layout.size, np.uint8), np.zeros(layout.size, np.uint8)
    good = kernels.fill(command, places, found, layout.crc_gather)
    assert good == kernels.plain_fill(command, places, plain, layout.crc_gather)
    assert good == np.isfinite(command).all()
    np.testing.assert_array_equal(found, plain)


def test_without_numba_the_plain_forms_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from sim2real_deploy import compiled

    monkeypatch.setattr(compiled, "numba", None)
    assert compiled.quickest(kernels._check, kernels.plain_check) is kernels.plain_check
    assert compiled.compiled(kernels._check) is kernels._check
