"""Files a user writes: each mistake is one clear line with the file and the key, never a crash."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim2real_deploy import configfile
from sim2real_deploy.configfile import Strict, load, parse, read_yaml
from sim2real_deploy.errors import Refusal


class Inner(Strict):
    gain: float


class Example(Strict):
    name: str
    inner: Inner
    items: tuple[int, ...] = ()


GOOD = "name: x\ninner: {gain: 1.5}\nitems: [1, 2]\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "example.yaml"


def test_a_good_file_becomes_a_value_that_stays_as_it_is(file: Path) -> None:
    file.write_text(GOOD)
    value = load(file, Example)
    assert value == Example(name="x", inner=Inner(gain=1.5), items=(1, 2))
    with pytest.raises(ValueError, match="frozen"):
        value.name = "y"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: x\n", "inner: is missing"),
        (GOOD + "nmae: y\n", "nmae: unknown key"),
        (GOOD.replace("1.5", "high"), "inner.gain: .*number.*'high'"),
        (GOOD.replace("1.5", ".nan"), "inner.gain: .*finite"),
        (GOOD.replace("1.5", ".inf"), "inner.gain: .*finite"),
        (GOOD.replace("[1, 2]", "[1, two]"), r"items\.1: .*'two'"),
        (GOOD + "name: y\n", "'name' is given twice"),
        (GOOD.replace("{gain: 1.5}", "{gain: 1.5, gain: 2}"), "'gain' is given twice"),
        ("a: &x {gain: 1}\ninner: *x\n", "aliases"),
        ("- 1\n- 2\n", "a mapping was expected, not list"),
        ("", "a mapping was expected, not NoneType"),
        ("name: [\n", "not a YAML file"),
        ("[" * 5000, "not a YAML file"),
        ("? [1, 2]\n: 3\n", "not a YAML file"),
        ("name: 2001-99-99\n", "not a YAML file.*month"),
        ("name: !!int foo\n", "not a YAML file"),
        ("name: !!bool maybe\n", "not a YAML file"),
        ("name: !!timestamp x\n", "not a YAML file"),
        ("name: " + "9" * 5000, "not a YAML file"),
        ("name: !!python/object/apply:os.system [ls]\n", "not a YAML file"),
    ],
)
def test_a_mistake_is_named_with_file_and_key(file: Path, text: str, words: str) -> None:
    file.write_text(text)
    with pytest.raises(Refusal, match=words) as refusal:
        load(file, Example)
    assert str(file) in str(refusal.value)


def test_every_mistake_of_a_file_is_told_at_once(file: Path) -> None:
    file.write_text("nam: x\ninner: {gain: high}\n")
    with pytest.raises(Refusal) as refusal:
        load(file, Example)
    assert len(str(refusal.value).splitlines()) == 3


def test_a_file_that_is_not_there_too_big_or_no_text_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Refusal, match="no such file"):
        load(file, Example)
    with pytest.raises(Refusal, match="cannot be read"):
        read_yaml(file.parent)
    file.write_bytes(b"\xff\xfe\x00name: x")
    with pytest.raises(Refusal, match="cannot be read"):
        load(file, Example)
    monkeypatch.setattr(configfile, "MAX_BYTES", 5)
    file.write_text(GOOD)
    with pytest.raises(Refusal, match="bytes is too large"):
        load(file, Example)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def complaint(job: Callable[[], object]) -> str | None:
    """What a Refusal says; nothing but a Refusal may come out."""
    try:
        job()
    except Refusal as refusal:
        return str(refusal)
    return None


@given(plain)
def test_whatever_a_file_holds_it_is_taken_or_refused(content: object) -> None:
    said = complaint(lambda: parse(content, Example, "file"))
    assert said is None or said.startswith("file: ")


@given(st.text(max_size=200))
def test_whatever_text_a_file_is_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    said = complaint(lambda: read_yaml(path))
    assert said is None or str(path) in said
