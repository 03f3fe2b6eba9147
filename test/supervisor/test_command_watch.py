"""Commands are control's or somebody else's by their writer, whatever they say."""

from sim2real_deploy.robots import JointCommand
from sim2real_deploy.supervisor.command_watch import LINGERS_NS, WRITES_NS, CommandWatch
from sim2real_deploy.wire.channels import Sample
from sim2real_deploy.wire.encoders import CommandEncoder
from sim2real_deploy.wire.link import Writer
from support.safety_world import GO2, MS, command

PEOPLE = {
    1: Writer("control-key", "here", "control"),
    2: Writer("safety-key", "here", "safety"),
    3: Writer("rival-key", "there", "rival"),
}
DRIVE = CommandEncoder(GO2).encode(command(kp=30))
WILD = CommandEncoder(GO2).encode(command(kp=900))
DAMP = CommandEncoder(GO2).encode(JointCommand.damping(GO2.joint_count, 3.0))


def watch() -> CommandWatch:
    return CommandWatch(GO2, PEOPLE.__getitem__, "safety-key")


def sample(writer: int, data: bytes) -> Sample[bytes]:
    return Sample(data, 0, 0, writer)


def test_a_rivals_command_is_not_controls() -> None:
    """Control damps as it was told; the newest sample on the wire is the rival's and drives."""
    seen = watch()
    seen.see([sample(1, DAMP), sample(3, DRIVE)], "control-key", 10 * MS)
    assert seen.damping
    assert seen.command_ns == 10 * MS
    assert seen.rivals(10 * MS) == ("rival on there",)


def test_a_rivals_damping_does_not_hide_a_control_that_drives_on() -> None:
    seen = watch()
    seen.see([sample(1, DRIVE), sample(3, DAMP)], "control-key", 10 * MS)
    assert not seen.damping


def test_a_writer_that_is_open_and_silent_is_no_rival() -> None:
    seen = watch()
    seen.see([sample(3, DRIVE)], "control-key", 0)
    assert seen.rivals(WRITES_NS) == seen.lingering(WRITES_NS) == ("rival on there",)
    assert seen.rivals(WRITES_NS + 1) == ()
    assert seen.lingering(LINGERS_NS) == ("rival on there",)
    assert seen.lingering(LINGERS_NS + 1) == ()


def test_control_and_the_supervisor_itself_are_nobodys_rivals() -> None:
    seen = watch()
    seen.see([sample(1, DAMP), sample(2, DAMP)], "control-key", 0)
    assert seen.lingering(0) == ()


def test_a_repeated_command_stays_current() -> None:
    seen = watch()
    seen.see([sample(1, DRIVE)], "control-key", 0)
    first = seen.command
    seen.see([sample(1, DRIVE)], "control-key", 5 * MS)
    assert seen.command is first
    assert seen.command_ns == 5 * MS


def test_every_command_between_two_looks_is_kept_for_judgement() -> None:
    """At 500 Hz two commands come between two looks: each second one could hide."""
    seen = watch()
    for now_ns in (4 * MS, 8 * MS):
        seen.see([sample(1, WILD), sample(1, DRIVE)], "control-key", now_ns)
        assert [float(drove.kp[0]) for drove in seen.drove] == [900.0]
        assert seen.command is not None
        assert seen.command.kp[0] == 30.0
    seen.see([sample(1, DRIVE)], "control-key", 12 * MS)
    assert seen.drove == ()


def test_damping_after_each_driving_command_is_no_damping() -> None:
    seen = watch()
    for now_ns in (4 * MS, 8 * MS):
        seen.see([sample(1, DRIVE), sample(1, DAMP)], "control-key", now_ns)
        assert not seen.damping
    seen.see([sample(1, DAMP)], "control-key", 12 * MS)
    assert seen.damping


def test_another_control_begins_with_nothing_said() -> None:
    seen = watch()
    seen.see([sample(1, DRIVE)], "control-key", 0)
    seen.see([], "", 1)
    assert (seen.command, seen.damping) == (None, False)
    seen.see([sample(3, DAMP)], "rival-key", 2)
    assert seen.damping


def test_a_flawed_command_changes_nothing_and_nan_is_counted_whoever_sent_it() -> None:
    seen = watch()
    seen.see([sample(1, DRIVE)], "control-key", 0)
    wild = bytearray(DRIVE)
    encoder = CommandEncoder(GO2)
    fields = encoder._fields  # a NaN with a good checksum, as the encoder itself never makes one
    encoder.encode(command(kp=30))
    fields["motor_cmd"]["q"][0, 3] = float("nan")
    wild = bytearray(encoder._finish())
    short = DRIVE[:-1]
    for count, writer in enumerate((1, 3), 1):
        seen.see([sample(writer, bytes(wild)), sample(writer, short)], "control-key", MS)
        assert seen.not_finite == count
    assert seen.command_ns == 0
