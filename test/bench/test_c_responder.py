"""The C responder of `bench control` answers with sound commands, and only sound states."""

import threading
import time
from pathlib import Path

import pytest

from sim2real_deploy.bench import c_responder
from sim2real_deploy.bench.contestants import standing
from sim2real_deploy.bench.control import AnswerTimes, judge
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.robots import load_robot
from sim2real_deploy.wire.channels import Participant
from sim2real_deploy.wire.decoders import CommandDecoder
from sim2real_deploy.wire.domains import free_domain
from sim2real_deploy.wire.encoders import StateEncoder
from sim2real_deploy.wire.messages import FAMILIES, LOW_CMD, LOW_STATE


@pytest.mark.parametrize("structure", c_responder.STRUCTURES)
def test_c_responder_answers_with_a_sound_command(tmp_path: Path, structure: str) -> None:
    try:
        built = c_responder.build(tmp_path)
    except Refusal as why:
        pytest.skip(str(why))
    spec = load_robot("go2")
    family, domain = FAMILIES[spec.wire.family], free_domain()
    participant = Participant(domain, "lo", "test")
    try:
        responder = c_responder.CResponder(
            built,
            load_bundle("go2_walk", spec),
            spec,
            participant.reader(LOW_STATE, family.state),
            participant.writer(LOW_CMD, family.command),
        )
        thread = threading.Thread(target=responder.run, args=(structure,))
        thread.start()
        states = participant.writer(LOW_STATE, family.state)
        commands = participant.reader(LOW_CMD, family.command)
        state, encoder = standing(spec), StateEncoder(spec)
        heard: dict[int, bytes] = {}
        mark, deadline = family.command.span("reserve"), time.monotonic() + 10.0
        while len(heard) < 30 and time.monotonic() < deadline:
            state.tick += 2
            sample = encoder.encode(state)
            flawed = bytearray(sample)
            flawed[100] ^= 1
            flawed[family.state.span("tick")] = (77).to_bytes(4, "little")
            states.write(bytes(flawed))  # its CRC is wrong: never answered
            states.write(sample)
            time.sleep(0.004)
            for answer in commands.take():
                heard[int.from_bytes(answer.data[mark], "little")] = answer.data
        responder.stop()
        thread.join(5.0)
        assert len(heard) >= 30
        assert 77 not in heard
        assert float("5e-324") * len(heard) > 0, "loading it turned subnormal numbers off"
        decoder = CommandDecoder(spec)
        for tick, answer in heard.items():
            assert tick % 2 == 0
            unmarked = bytearray(answer)  # the mark is put in after the checksum
            unmarked[mark] = bytes(4)
            # The checksum is taken at a step of the policy, over the mark of the tick before.
            if decoder.flaw(bytes(unmarked)) is None:
                command = decoder.decode(bytes(unmarked))
                assert (command.kp == 25.0).all()
                assert (command.q >= spec.position_low).all()
                assert (command.q <= spec.position_high).all()
                break
        else:
            pytest.fail("no command with a right checksum")
    finally:
        participant.close()


def test_no_compiler_is_said_and_compared_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refusal, match="no C compiler"):
        c_responder.build(tmp_path)
    figures = AnswerTimes(0.2, 0.4, 1.0, 0.01, 5.0, 0.1, 10, 1000, 0)
    result = judge({"echo": figures, "ours": figures}, "no C compiler")
    assert result.raw["note"] == "no C compiler"
    assert all(check.ok for check in result.checks)
    assert not any("C on arrival" in check.name for check in result.checks)


def test_slower_than_c_is_not_ok() -> None:
    c = AnswerTimes(0.2, 0.4, 1.0, 0.01, 5.0, 0.1, 10, 1000, 0)
    ours = AnswerTimes(0.24, 0.4, 1.0, 0.01, 5.0, 0.1, 10, 1000, 0)
    failed = [check.name for check in judge({"ours": ours, "c": c}).checks if not check.ok]
    assert failed == ["latency p50, of C on arrival"]
