"""Networks in our own loops: against their numpy form bit for bit, and against onnxruntime."""

import hashlib
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from sim2real_deploy.compiled import AVAILABLE
from sim2real_deploy.policy import session
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.policy.compiled_network import LEAST, MOST, execute, exponential, plain_run
from sim2real_deploy.policy.contract import Contract
from sim2real_deploy.policy.network_builder import Inexpressible
from sim2real_deploy.policy.onnx_graph import Unreadable, read_graph
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.policy.translate import OPERATIONS, translate
from sim2real_deploy.robots import load_robot
from support.policy_samples import PLAIN_TERMS, contract_for, make_state

SPEC = load_robot("go2")
TOLERANCE = 1e-5  # against onnxruntime, of 1 + the size of each number
ACTIVATIONS = ("Relu", "LeakyRelu", "Elu", "Sigmoid", "Tanh", "Clip", "SiLU")
BENDS = {"LeakyRelu": {"alpha": 0.2}, "Elu": {"alpha": 0.7}}


@dataclass
class Sketch:
    """A network in the making; each method adds an operation and returns its output's name."""

    seed: int
    nodes: list = field(default_factory=list)
    constants: list = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def node(self, operation, inputs, count=1, **attributes):
        names = [f"v{len(self.nodes)}_{k}" for k in range(count)]
        self.nodes.append(helper.make_node(operation, inputs, names, **attributes))
        return names[0] if count == 1 else names

    def constant(self, values):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def weights(self, *shape):
        return self.constant(self.random.normal(0, 0.3, shape).astype(np.float32))

    def floats(self, value):
        return self.constant(np.float32(value))

    def whole(self, *values):
        return self.constant(np.array(values, np.int64))

    def model(self, inputs, outputs):
        """`inputs` and `outputs`: shapes by name."""
        ends = [
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                for name, shape in ports.items()
            ]
            for ports in (inputs, outputs)
        ]
        graph = helper.make_graph(self.nodes, "made", *ends, self.constants)
        opsets = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        onnx.checker.check_model(model)
        return model.SerializeToString()


def activate(sketch, name, kind):
    if kind == "SiLU":
        return sketch.node("Mul", [name, sketch.node("Sigmoid", [name])])
    bounds = [sketch.floats(-0.5), sketch.floats(0.4)] if kind == "Clip" else []
    return sketch.node(kind, [name, *bounds], **BENDS.get(kind, {}))


def layer(sketch, name, size, to, by):
    if by == "matmul":
        product = sketch.node("MatMul", [name, sketch.weights(size, to)])
        return sketch.node("Add", [sketch.weights(to), product])
    columns = (to, size) if by == "transposed" else (size, to)
    form = {"transB": by == "transposed", "alpha": 0.5, "beta": 2.0}
    return sketch.node("Gemm", [name, sketch.weights(*columns), sketch.weights(to)], **form)


def recur(sketch, name, size, width, kind):
    """One step of a recurrent layer, from a state that is a constant."""
    gates = {"LSTM": 4, "GRU": 3}[kind]
    step = sketch.node("Unsqueeze", [name, sketch.whole(0)])
    told = [step, sketch.weights(1, gates * width, size), sketch.weights(1, gates * width, width)]
    told += [sketch.weights(1, 2 * gates * width), "", sketch.weights(1, 1, width)]
    form = {"hidden_size": width}
    if kind == "LSTM":
        told.append(sketch.weights(1, 1, width))
    else:
        form["linear_before_reset"] = 1
    every, *states = sketch.node(kind, told, count=3 if kind == "LSTM" else 2, **form)
    last = sketch.node("Squeeze", [sketch.node("Squeeze", [every, sketch.whole(0)])])
    flat = sketch.node("Reshape", [last, sketch.whole(1, -1)])
    added = sketch.node("Squeeze", [states[-1], sketch.whole(0)])
    return sketch.node("Concat", [flat, added], axis=1), 2 * width


@st.composite
def networks(draw):
    """A model of one input, its size, and its output's."""
    sketch = Sketch(draw(st.integers(0, 2**32 - 1)))
    size = given_size = draw(st.integers(2, 40))
    name = "obs"
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(
            st.sampled_from(["layer", "normalise", "cut", "split", "norm", "turn", "LSTM", "GRU"])
        )
        if kind == "layer":
            to = draw(st.integers(1, 40))
            by = draw(st.sampled_from(["matmul", "plain", "transposed"]))
            name, size = layer(sketch, name, size, to, by), to
            name = activate(sketch, name, draw(st.sampled_from(ACTIVATIONS)))
        elif kind == "normalise":
            apart = sketch.node("Sub", [name, sketch.weights(1, size)])
            spread = sketch.constant(sketch.random.uniform(0.5, 2, (1, size)).astype(np.float32))
            name = sketch.node("Mul", [sketch.node("Div", [apart, spread]), sketch.floats(0.7)])
        elif kind == "cut" and size > 1:
            start, step = draw(st.integers(0, size - 2)), draw(st.integers(1, 2))
            cut = [sketch.whole(start), sketch.whole(size), sketch.whole(1), sketch.whole(step)]
            name = sketch.node("Slice", [name, *cut])
            size = len(range(start, size, step))
        elif kind == "split" and size > 1:
            first = draw(st.integers(1, size - 1))
            parts = sketch.whole(first, size - first)
            one, two = sketch.node("Split", [name, parts], count=2, axis=1)
            two = activate(sketch, two, draw(st.sampled_from(ACTIVATIONS)))
            places = sketch.whole(*draw(st.permutations(range(size))))
            joined = sketch.node("Concat", [two, name, one], axis=1)
            name = sketch.node("Gather", [joined, places], axis=1)
        elif kind == "norm":
            length = sketch.node("ReduceL2", [name], axes=[1], keepdims=1)
            length = sketch.node("Clip", [length, sketch.floats(0.1)])
            shape = sketch.node("Shape", [name])
            name = sketch.node("Div", [name, sketch.node("Expand", [length, shape])])
        elif kind == "turn" and size % 2 == 0:
            flat = sketch.node("Reshape", [name, sketch.whole(0, 2, -1)])
            turned = sketch.node("Transpose", [flat], perm=[0, 2, 1])
            name = sketch.node("Flatten", [turned])
        elif kind in ("LSTM", "GRU"):
            name, size = recur(sketch, name, size, draw(st.integers(1, 12)), kind)
    sketch.nodes.append(helper.make_node("Identity", [name], ["actions"]))
    return sketch.model({"obs": [1, given_size]}, {"actions": [1, size]}), given_size, size


def run(network, values, size, how=execute):
    network.scratch[: values.size] = values
    how(*network)
    return network.scratch[values.size : values.size + size].copy()


def opened(model, inputs, outputs):
    return translate(model, [("obs", (1, inputs))], [("actions", (1, outputs))])


@settings(max_examples=150, deadline=None)
@given(networks(), st.floats(0.01, 20))
def test_random_networks_equal_numpy_bit_for_bit_and_agree_with_onnxruntime(made, spread):
    model, inputs, outputs = made
    network = opened(model, inputs, outputs)
    reference = onnxruntime.InferenceSession(model)
    random = np.random.default_rng(0)
    for _ in range(5):
        values = random.normal(0, spread, inputs).astype(np.float32)
        (expected,) = reference.run(None, {"obs": values[None]})
        found = run(network, values, outputs)
        np.testing.assert_allclose(found, expected[0], rtol=TOLERANCE, atol=TOLERANCE)
        assert found.tobytes() == run(network, values, outputs, plain_run).tobytes()


@pytest.mark.parametrize("wild", [np.nan, np.inf, -np.inf, 3e38, 1e-42, -0.0])
def test_values_that_no_robot_has_come_out_as_in_numpy(wild):
    for kind in ACTIVATIONS:
        sketch = Sketch(1)
        name = activate(sketch, layer(sketch, "obs", 7, 19, "plain"), kind)
        sketch.nodes.append(helper.make_node("Identity", [name], ["actions"]))
        network = opened(sketch.model({"obs": [1, 7]}, {"actions": [1, 19]}), 7, 19)
        values = np.full(7, wild, np.float32)
        with np.errstate(all="ignore"):
            plain = run(network, values, 19, plain_run)
        np.testing.assert_array_equal(run(network, values, 19), plain)
        assert not np.isnan(wild) or np.isnan(plain).all()  # a fault is never hidden


def test_the_exponential_is_right_to_a_few_units_in_the_last_place():
    x = np.linspace(LEAST, MOST, 200_001, dtype=np.float32)
    expected = np.exp(x.astype(float))
    assert np.max(np.abs(exponential(x) / expected - 1)) < 2e-7


def test_the_bits_are_the_same_on_every_machine():
    """The digest was made with AVX-512, AVX2 and neither."""
    sketch, size, name = Sketch(7), 61, "obs"
    for kind, to in zip(ACTIVATIONS, (128, 64, 33, 70, 40, 50, 30), strict=True):
        name, size = activate(sketch, layer(sketch, name, size, to, "plain"), kind), to
    name, size = recur(sketch, *recur(sketch, name, size, 13, "LSTM"), 9, "GRU")
    sketch.nodes.append(helper.make_node("Identity", [name], ["actions"]))
    network = opened(sketch.model({"obs": [1, 61]}, {"actions": [1, size]}), 61, size)
    found = run(network, np.linspace(-2, 2, 61, dtype=np.float32), size)
    assert hashlib.sha256(found.tobytes()).hexdigest()[:16] == "d481df0063a8c567"


@pytest.mark.parametrize("name", ["go2_walk", "go2_rough", "go2_perceptive"])
def test_shipped_policies_run_in_our_own_loops(name):
    bundle = load_bundle(name, SPEC)
    policy = bundle.open()
    assert (policy.session.network is not None) == AVAILABLE
    reference = onnxruntime.InferenceSession(bundle.model)
    random = np.random.default_rng(0)
    for _ in range(20):
        policy.observation[:] = random.normal(0, 1, policy.observation.size)
        policy.session.run()
        (given,) = reference.get_inputs()
        feed = {given.name: policy.observation[None]}
        (expected,) = reference.run([bundle.contract.action.output], feed)
        np.testing.assert_allclose(policy.action, expected[0], rtol=TOLERANCE, atol=TOLERANCE)


def bundle_of(model):
    return Contract(
        **contract_for(SPEC, model, observations=[{"input": "obs", "terms": PLAIN_TERMS}])
    )


def softened(last):
    """A network of the plain terms, with one operation after its only layer."""
    sketch = Sketch(2)
    name = layer(sketch, "obs", 45, 12, "plain")
    sketch.nodes.append(helper.make_node(last, [name], ["actions"]))
    return sketch.model({"obs": ["batch", 45]}, {"actions": ["batch", 12]})


def test_what_cannot_be_translated_runs_in_onnxruntime():
    assert "Softplus" not in OPERATIONS
    model = softened("Softplus")
    with pytest.raises(Inexpressible, match="Softplus"):
        opened(model, 45, 12)
    policy = Policy(bundle_of(model), SPEC, model, "here")
    assert policy.session.network is None
    assert policy.session.why_onnx == (
        "it has a Softplus" if AVAILABLE else "numba is not installed"
    )
    assert policy.compile() is None
    policy.observe(make_state(SPEC), (0.5, 0.0, 0.0))
    policy.infer()
    (expected,) = onnxruntime.InferenceSession(model).run(None, {"obs": policy.observation[None]})
    np.testing.assert_array_equal(policy.action, expected[0])


@pytest.mark.skipif(not AVAILABLE, reason="numba is not installed")
def test_a_translation_that_does_not_agree_is_not_used(monkeypatch):
    model = softened("Tanh")
    assert Policy(bundle_of(model), SPEC, model, "here").session.network is not None

    def wrong(*arguments):
        network = translate(*arguments)
        network.weights[:12] += 0.001  # the biases
        return network

    monkeypatch.setattr(session, "translate", wrong)
    doubted = Policy(bundle_of(model), SPEC, model, "here").session
    assert doubted.network is None
    assert doubted.why_onnx == "our own loops get other results"


def test_a_network_that_moves_single_numbers_about_stays_in_onnxruntime():
    sketch = Sketch(3)
    square = sketch.node("Reshape", ["obs", sketch.whole(50, 50)])
    turned = sketch.node("Transpose", [square])
    flat = sketch.node("Reshape", [turned, sketch.whole(1, -1)])
    sketch.nodes.append(helper.make_node("Elu", [flat], ["actions"]))
    model = sketch.model({"obs": [1, 2500]}, {"actions": [1, 2500]})
    with pytest.raises(Inexpressible, match="operations"):
        opened(model, 2500, 2500)


def test_a_file_that_asks_for_endless_memory_is_left_to_onnxruntime():
    for operation, more, why in (("Elu", [], "45000000000 times"), ("Add", [0.5], "numbers")):
        sketch = Sketch(4)
        wide = sketch.node("Expand", ["obs", sketch.whole(10**9, 45)])
        far = sketch.node(operation, [wide, *map(sketch.floats, more)])
        sketch.nodes.append(helper.make_node("Gather", [far, sketch.whole(0)], ["actions"], axis=0))
        model = sketch.model({"obs": [1, 45]}, {"actions": [1, 45]})
        with pytest.raises(Inexpressible, match=why):
            opened(model, 45, 45)


number = st.floats(-100, 100, width=32)


@given(
    st.lists(number, min_size=1, max_size=20), st.booleans(), st.lists(st.integers(-(2**40), 2**40))
)
def test_constants_are_read_in_every_form(values, raw, whole):
    array, more = np.array(values, np.float32), np.array(whole, np.int64)
    floats = helper.make_tensor(
        "floats", TensorProto.FLOAT, array.shape, array.tobytes() if raw else array, raw=raw
    )
    integers = helper.make_tensor("whole", TensorProto.INT64, more.shape, whole)
    graph = helper.make_graph([], "made", [], [], [floats, integers])
    read = read_graph(helper.make_model(graph).SerializeToString())
    np.testing.assert_array_equal(read.constants["floats"], array)
    np.testing.assert_array_equal(read.constants["whole"], more)
    assert read.constants["floats"].dtype == np.float32


def test_operations_are_read_as_the_onnx_package_reads_them():
    tensor = numpy_helper.from_array(np.float32([1, 2]))
    attributes = {"alpha": 0.25, "axis": -1, "to": "text", "value": tensor, "axes": [3, -4]}
    node = helper.make_node("Thing", ["a", "", "b"], ["c"], domain="theirs", **attributes)
    (found,) = read_graph(
        helper.make_model(helper.make_graph([node], "made", [], [])).SerializeToString()
    ).nodes
    assert found.operation == "theirs.Thing"
    assert (found.inputs, found.outputs) == (["a", "", "b"], ["c"])
    np.testing.assert_array_equal(found.attributes["value"], [1, 2])
    assert {key: found.attributes[key] for key in ("alpha", "axis", "to", "axes")} == {
        key: attributes[key] for key in ("alpha", "axis", "to", "axes")
    }


def test_weights_in_another_file_are_not_read():
    tensor = numpy_helper.from_array(np.zeros(3, np.float32), "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="elsewhere")
    model = helper.make_model(helper.make_graph([], "made", [], [], [tensor]))
    with pytest.raises(Unreadable):
        read_graph(model.SerializeToString())
