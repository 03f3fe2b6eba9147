"""Files that say what buttons and sticks mean: read, checked, and the stop chord untouchable."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim2real_deploy import configfile, paths
from sim2real_deploy.control.modes import ModeEvent, ModeRequest
from sim2real_deploy.control.pad import Pad
from sim2real_deploy.control.pad_map import PadMap, load_pad
from sim2real_deploy.control.stages import load_stage
from sim2real_deploy.control.velocity_command import VelocityCommand
from sim2real_deploy.errors import Refusal
from sim2real_deploy.wire.remote import BUTTONS, Remote

XBOX = configfile.read_yaml(paths.config_file("pads/xbox.yaml"))
STAGE = load_stage("indoor")


def changed(**changes):
    content = copy.deepcopy(XBOX)
    for path, value in changes.items():
        *parents, key = path.split("__")
        place = content
        for parent in parents:
            place = place[parent]
        if value is None:
            del place[key]
        else:
            place[key] = value
    return content


def test_every_pad_file_loads():
    for file in paths.config_file("pads").glob("*.yaml"):
        assert load_pad(file.stem).requests[frozenset({"L2", "B"})] == ModeRequest(ModeEvent.DAMP)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (changed(chords={"L2+A": "stand"}), "L2+B must be there and mean damp"),
        (changed(chords={"L2+B": "walk"}), "L2+B must be there and mean damp"),
        (changed(chords={"L2+B": "damp", "B": "walk"}), "chords.B: would trigger while L2+B"),
        (changed(chords={"L2+B": "damp", "Q": "walk"}), "chords.Q: there is no button 'Q'"),
        (changed(chords={"L2+B": "damp", "A": "fly"}), "chords.A: 'fly' is none of stand, walk"),
        (changed(chords={"L2+B": "damp", "B+L2": "damp"}), "the same buttons are listed twice"),
        (changed(dead_man=None), "a gamepad needs one"),
        (changed(dead_man="Q"), "dead_man: there is no button 'Q'"),
        (changed(dead_zone=0.0), "dead_zone"),
        (changed(axes__vx={"stick": "ly", "share": 2.0}), "axes.vx.share"),
        (changed(joy__sticks={"lx": [0, -1]}), "axes.vx.stick: joy.sticks has no 'ly'"),
        (changed(joy__triggers=None), "there is no button 'L2'"),
    ],
)
def test_a_wrong_file_is_refused_by_key(content, words):
    with pytest.raises(Refusal) as refused:
        configfile.parse(content, PadMap, "pads/mine.yaml")
    assert words in str(refused.value)
    assert str(refused.value).startswith("pads/mine.yaml: ")


def test_an_unknown_pad_names_those_that_there_are():
    with pytest.raises(Refusal, match="there are: unitree, xbox"):
        load_pad("spaceball")


@given(st.sets(st.sampled_from(BUTTONS)), st.sets(st.sampled_from(BUTTONS)))
def test_the_stop_chord_wins_whatever_else_is_held(before, also):
    """Any buttons held, then L2 and B on top of any others: damping is what is asked for."""
    pad = Pad(VelocityCommand(STAGE), load_pad("unitree"))
    pad.update(Remote(pressed=frozenset(before - {"B"})), 0)
    assert pad.update(Remote(pressed=frozenset(also | {"L2", "B"})), 1) == ModeRequest(
        ModeEvent.DAMP
    )


def test_a_chord_may_name_a_policy():
    content = changed(chords={"L2+B": "damp", "up": "switch go2_rough"})
    content["joy"]["buttons"].append("up")
    pad = Pad(VelocityCommand(STAGE), configfile.parse(content, PadMap, "mine"))
    held = Remote(pressed=frozenset({"up"}))
    assert pad.update(held, 0) == ModeRequest(ModeEvent.SWITCH, "go2_rough")
