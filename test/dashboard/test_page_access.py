"""When the page asks for a token."""

import pytest

from sim2real_deploy.dashboard.access import page_token


def test_a_twins_page_on_this_machine_asks_for_none():
    assert page_token("", "127.0.0.1", real=False) == ""


def test_a_token_that_was_set_is_asked_for_on_this_machine_too():
    assert page_token("open-sesame", "127.0.0.1", real=False) == "open-sesame"


@pytest.mark.parametrize(("host", "real"), [("0.0.0.0", False), ("127.0.0.1", True)])
def test_served_wider_or_before_a_real_robot_there_is_a_new_one_each_time(host, real):
    first, second = page_token("", host, real), page_token("", host, real)
    assert len(first) >= 12
    assert first != second
