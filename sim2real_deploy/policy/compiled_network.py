"""A feed-forward network as a short program over one vector of numbers.

Each row of the program is one operation on stretches of the vector. Products are summed in the
order of the inputs, every operation is rounded by itself, and nothing is left to a library: so
`run`, compiled, and `plain_run`, in numpy, give the same bits, and so does every machine.
translate.py makes the program from an ONNX file.
"""

from typing import Any, NamedTuple

import numpy as np

from sim2real_deploy.compiled import part, quickest

Array = Any  # a numpy array
Number = Any  # one of numpy's, or an array of them
OPERATION, TO, COUNT, FIRST, SECOND, WEIGHTS = range(6)  # columns of a program
COPY, MATRIX, ADD, SUBTRACT, MULTIPLY, DIVIDE, LIMIT, LEAK, ELU, SIGMOID, TANH, ROOT = range(12)
LANES = 8  # the rows of a matrix are filled up to a multiple, so that vectors are full

# e**x = 2**n * e**r, |r| <= ln(2) / 2: the coefficients of the Cephes library.
LEAST, MOST = np.float32(-87.0), np.float32(88.0)
PER_LN2, LN2_HIGH, LN2_LOW = map(np.float32, (1.44269504, 0.693359375, -2.12194440e-4))
P0, P1, P2, P3, P4, P5 = map(
    np.float32,
    (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5),
)
ROUNDER = np.float32(12582912.0)  # 1.5 * 2**23: added, it leaves no digits behind the point
ROUNDER_BITS = 0x4B400000
ZERO, ONE, TWO = map(np.float32, (0.0, 1.0, 2.0))


class Network(NamedTuple):
    program: Array
    weights: Array
    scratch: Array  # what goes in, what comes out, constants, and all between

    @classmethod
    def nothing(cls) -> "Network":
        return cls(np.zeros((0, WEIGHTS + 1), np.int64), *np.zeros((2, 1), np.float32))


@part
def exponential(x: Number) -> Number:
    """e**x to a few units in the last place, for `x` from LEAST to MOST."""
    rounded = x * PER_LN2 + ROUNDER
    n = rounded - ROUNDER
    r = x - n * LN2_HIGH - n * LN2_LOW
    small = ((((P0 * r + P1) * r + P2) * r + P3) * r + P4) * r + P5
    exponent = np.float32(rounded).view(np.int32) - ROUNDER_BITS + 127
    return (small * r * r + r + ONE) * np.int32(exponent << 23).view(np.float32)


@part
def sigmoid(minus: Number) -> Number:
    """Of minus x, within the exponential's bounds."""
    return np.divide(ONE, ONE + exponential(minus))


@part
def within(value: Number, low: Number, high: Number) -> Number:
    """NaN stays NaN."""
    return low if value < low else high if value > high else value


@part
def multiply(weights: Array, x: Array, y: Array) -> None:
    """The first row holds the biases, each further one is multiplied by a number of `x`. Four at a
    time, so that `y` is read and written more rarely."""
    width, rest = y.size, x.size % 4
    for i in range(width):
        y[i] = weights[i]
    at = width
    for j in range(rest):
        row, x0 = weights[at : at + width], x[j]
        for i in range(width):
            y[i] += row[i] * x0
        at += width
    for j in range(rest, x.size, 4):
        one, two = weights[at : at + width], weights[at + width : at + 2 * width]
        at += 2 * width
        three, four = weights[at : at + width], weights[at + width : at + 2 * width]
        at += 2 * width
        x0, x1, x2, x3 = x[j], x[j + 1], x[j + 2], x[j + 3]
        for i in range(width):
            y[i] = y[i] + one[i] * x0 + two[i] * x1 + three[i] * x2 + four[i] * x3


@part
def run(program: Array, weights: Array, scratch: Array) -> None:
    for k in range(program.shape[0]):
        operation, count = program[k, OPERATION], program[k, COUNT]
        first, second, at = program[k, FIRST], program[k, SECOND], program[k, WEIGHTS]
        y = scratch[program[k, TO] : program[k, TO] + count]
        a, b = scratch[first : first + count], scratch[second : second + count]
        if operation == MATRIX:
            multiply(weights[at : at + (second + 1) * count], scratch[first : first + second], y)
        elif operation == COPY:
            for i in range(count):
                y[i] = a[i]
        elif operation == ADD:
            for i in range(count):
                y[i] = a[i] + b[i]
        elif operation == SUBTRACT:
            for i in range(count):
                y[i] = a[i] - b[i]
        elif operation == MULTIPLY:
            for i in range(count):
                y[i] = a[i] * b[i]
        elif operation == DIVIDE:
            for i in range(count):
                y[i] = np.divide(a[i], b[i])  # infinity, where `/` would raise
        elif operation == LIMIT:
            low, high = weights[at], weights[at + 1]
            for i in range(count):
                y[i] = within(a[i], low, high)
        elif operation == LEAK:
            slope = weights[at]
            for i in range(count):
                y[i] = a[i] * slope if a[i] < ZERO else a[i]
        elif operation == ELU:
            most = weights[at]
            for i in range(count):
                below = (exponential(within(a[i], LEAST, ZERO)) - ONE) * most
                y[i] = below if a[i] < ZERO else a[i]
        elif operation == SIGMOID:
            for i in range(count):
                y[i] = sigmoid(within(-a[i], LEAST, MOST))
        elif operation == TANH:
            for i in range(count):
                y[i] = TWO * sigmoid(within(-TWO * a[i], LEAST, MOST)) - ONE
        elif operation == ROOT:
            for i in range(count):
                y[i] = np.sqrt(a[i])


def _all_within(values: Array, low: Number, high: Number) -> Array:
    return np.where(values < low, low, np.where(values > high, high, values))


def plain_run(program: Array, weights: Array, scratch: Array) -> None:
    for operation, to, count, first, second, at in program.tolist():
        y, a, b = (scratch[place : place + count] for place in (to, first, second))
        below = a < ZERO
        if operation == MATRIX:
            rows = weights[at : at + (second + 1) * count].reshape(-1, count)
            terms = np.concatenate([rows[:1], rows[1:] * scratch[first : first + second, None]])
            np.add.reduce(terms, axis=0, out=y)  # one row after the other
        elif operation == COPY:
            y[:] = a
        elif operation == ADD:
            np.add(a, b, y)
        elif operation == SUBTRACT:
            np.subtract(a, b, y)
        elif operation == MULTIPLY:
            np.multiply(a, b, y)
        elif operation == DIVIDE:
            np.divide(a, b, y)
        elif operation == LIMIT:
            y[:] = _all_within(a, weights[at], weights[at + 1])
        elif operation == LEAK:
            y[:] = np.where(below, a * weights[at], a)
        elif operation == ELU:
            negative = exponential(_all_within(a, LEAST, ZERO)) - ONE
            y[:] = np.where(below, negative * weights[at], a)
        elif operation == SIGMOID:
            y[:] = sigmoid(_all_within(-a, LEAST, MOST))
        elif operation == TANH:
            y[:] = TWO * sigmoid(_all_within(-TWO * a, LEAST, MOST)) - ONE
        elif operation == ROOT:
            np.sqrt(a, y)


execute = quickest(run, plain_run)
