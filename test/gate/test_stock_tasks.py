"""A network without a description: the stock task with which it walks is found, none is made up."""

from dataclasses import replace

from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate.lone_network import try_tasks
from sim2real_deploy.policy.bundle import Bundle, load_bundle
from sim2real_deploy.robots import load_robot

GO2 = load_robot("go2")
GOOD = load_bundle("go2_walk", GO2)


def wrong_order() -> Bundle:
    turned = tuple(reversed(GOOD.contract.joints))
    return replace(GOOD, contract=GOOD.contract.model_copy(update={"joints": turned}))


def bring_in(task: str) -> Bundle:
    if task == "other size":
        raise Refusal("the network takes another number of inputs")
    return GOOD if task == "right" else wrong_order()


def test_the_task_that_walks_comes_first_and_one_that_does_not_fit_is_left_out() -> None:
    heard: list[str] = []
    best, other = try_tasks(["other size", "wrong", "right"], bring_in, heard.append)
    assert (best.task, best.moves, best.walks) == ("right", best.of, True)
    assert (other.task, other.walks) == ("wrong", False)
    assert heard[0] == "wrong: stand"
