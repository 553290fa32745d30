"""Exceptions and warnings: raised where NumPy raises them, and caught where the user catches."""

from __future__ import annotations

import contextlib
import math
import warnings

import numpy as np

from tests.meaning.arrays import cube, ints, mat, spd, vec
from tests.meaning.pattern import pattern, scene


class OwnError(Exception):
    def __init__(self, value):
        super().__init__(value)
        self.value = value


@pattern(lambda: (ints(4), ints(4) - 1))
def try_floor_divide(x, y):
    try:
        return x // y
    except ZeroDivisionError:
        return None


@pattern(lambda: (vec(4), 0.0), lambda: (vec(4), 2.0))
def python_float_division(x, d):
    try:
        s = 1.0 / d
    except ZeroDivisionError:
        return "no"
    return x * s


@pattern(lambda: (vec(4), "x"), lambda: (vec(4), "3"))
def int_of_bad_text(x, text):
    try:
        return x * int(text)
    except ValueError as error:
        return str(error)


@pattern(lambda: (vec(4), 9), lambda: (vec(4), 1))
def caught_index_error(x, k):
    try:
        return x[k]
    except IndexError:
        return float("nan")


@pattern(lambda: vec(4))
def index_error(x):
    return x[4]


@pattern(lambda: (vec(4), np.array([1, 7])), lambda: (vec(4), np.array([1, -2])))
def caught_fancy_index_error(x, k):
    try:
        return x[k]
    except IndexError:
        return "out of range"


@pattern(lambda: (vec(4), np.array([1, 7])))
def take_out_of_range(x, k):
    return np.take(x, k, mode="clip"), np.take(x, k, mode="wrap"), x.take(k)


@pattern(lambda: mat())
def too_many_indices(x):
    return x[0, 0, 0]


@pattern(lambda: vec(4))
def float_index(x):
    return x[1.0]


@pattern(lambda: (vec(4), vec(3)))
def shapes_do_not_fit(a, b):
    return a + b


@pattern(lambda: (vec(4), vec(3)))
def shapes_do_not_fit_caught(a, b):
    try:
        return a + b
    except ValueError:
        return a[:3] + b


@pattern(lambda: (mat(3, 4), mat(3, 4)))
def matmul_does_not_fit(a, b):
    return a @ b


@pattern(lambda: vec(6))
def reshape_does_not_fit(x):
    return x.reshape(4, 2)


@pattern(lambda: mat())
def axis_out_of_range(x):
    return x.sum(axis=2)


@pattern(lambda: (vec(3), mat(2, 2)))
def concatenate_does_not_fit(a, b):
    return np.concatenate([a, b])


@pattern(lambda: vec(6))
def write_does_not_fit(x):
    x[0] = 5
    x[1:3] = [1, 2, 3]
    return x


@pattern(lambda: np.ones((3, 3)), lambda: spd(3))
def singular_caught(a):
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        return np.linalg.pinv(a)


@pattern(lambda: np.zeros((2, 2)))
def singular_solve(a):
    return np.linalg.solve(a, np.ones(2))


@pattern(lambda: -spd(3), lambda: spd(3))
def cholesky_not_positive(a):
    try:
        return np.linalg.cholesky(a)
    except np.linalg.LinAlgError as error:
        return type(error).__name__


@pattern(lambda: mat(2, 3))
def inverse_not_square(a):
    return np.linalg.inv(a)


@pattern(lambda: vec(4))
def errstate_ignore(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(x) / 0


@pattern(lambda: vec(4))
def errstate_raise(x):
    with np.errstate(invalid="raise"):
        return np.log(x)


@pattern(lambda: vec(4), lambda: vec(4) ** 2 + 1)
def errstate_raise_caught(x):
    try:
        with np.errstate(all="raise"):
            return 1 / np.sqrt(x)
    except FloatingPointError:
        return "bad"


@pattern(lambda: vec(4))
def errstate_as_decorator(x):
    @np.errstate(all="ignore")
    def inner(v):
        return np.sqrt(v)

    return inner(x)


@pattern(lambda: vec(4))
def simplefilter_error_inside(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.sqrt(x)
        except RuntimeWarning:
            return "warned"


@scene
def simplefilter_error_outside(offload):
    f = offload(lambda x: np.log(x))
    results = [f(vec(3))]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for x in (vec(3), np.ones(3)):
            try:
                results.append(f(x))
            except RuntimeWarning as error:
                results.append(type(error).__name__)
    return results


@pattern(lambda: vec(4))
def warnings_recorded_inside(x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        y = np.sqrt(x)
    return y, len(seen)


@pattern(lambda: (vec(4), "half"))
def own_warning(x, text):
    warnings.warn(text, UserWarning, stacklevel=1)
    return x / 2


@pattern(lambda: vec(4), lambda: -vec(4) * 0)
def user_raises(x):
    if x.max() > 0:
        raise OwnError(float(x.max()))
    return x


@pattern(lambda: vec(4))
def user_raises_with_array(x):
    raise OwnError(x[:2])


@scene
def exception_carries_array(offload):
    @offload
    def f(x):
        error = OwnError(x * 2)
        raise error

    for _ in range(3):
        try:
            f(vec(3))
        except OwnError as error:
            kept = error
    return kept.value, kept.args


@pattern(lambda: vec(4), lambda: np.full(4, np.nan))
def assertion(x):
    assert np.isfinite(x).all(), "bad input"
    return x


@pattern(lambda: (vec(4), [], True), lambda: (vec(4), [], False))
def finally_block(x, log, fail):
    try:
        if fail:
            raise ValueError("x")
        return x + 1
    finally:
        log.append("done")


@pattern(lambda: (vec(4), 0))
def try_else_finally(x, k):
    steps = []
    try:
        y = x / (k or 1)
    except ZeroDivisionError:
        steps.append("except")
    else:
        steps.append("else")
    finally:
        steps.append("finally")
    return steps, y


@pattern(lambda: vec(4))
def raise_from(x):
    try:
        x["a"]
    except IndexError as error:
        raise KeyError("no field") from error


@pattern(lambda: (vec(4), {}))
def key_error(x, d):
    return x * d["missing"]


@pattern(lambda: vec(4))
def attribute_error(x):
    return x.no_such_method()


@pattern(lambda: vec(4))
def attribute_probed(x):
    return hasattr(x, "cuda"), hasattr(x, "shape"), hasattr(x, "at"), getattr(x, "device", "none")


@pattern(lambda: (vec(4), "text"))
def adding_text(x, text):
    return x + text


@pattern(lambda: (vec(4), None))
def adding_none(x, nothing):
    return x + nothing


@pattern(lambda: (vec(4), {}))
def unsupported_operand_caught(x, d):
    try:
        return x * d
    except TypeError:
        return "no"


@pattern(lambda: vec(4))
def ambiguous_truth(x):
    if x > 0:
        return 1
    return 0


@pattern(lambda: vec(4))
def float_of_many(x):
    return float(x)


@pattern(lambda: vec(4))
def int_of_float_nan(x):
    return int(x[0] * np.nan)


@pattern(lambda: vec(4))
def math_domain(x):
    return math.sqrt(-abs(x[0]))


@pattern(lambda: vec(4))
def math_of_many(x):
    return math.exp(x)


@pattern(lambda: vec(4))
def unpack_too_few(x):
    a, b = x
    return a + b


@pattern(lambda: cube())
def stop_iteration(x):
    it = iter(x)
    next(it)
    next(it)
    return next(it, "end"), next(it)


@pattern(lambda: (vec(4), 1))
def wrong_keyword(x, k):
    return np.sum(x, axes=k)


@pattern(lambda: vec(4))
def missing_argument(x, y):
    return x + y


@pattern(lambda: vec(4))
def not_hashable(x):
    return {x: 1}


@pattern(lambda: (vec(3), 200))
def overflow_of_python_int(x, n):
    return x.astype(np.int8) + np.int8(n)


@pattern(lambda: vec(4))
def suppress_block(x):
    with contextlib.suppress(ValueError):
        x = x.reshape(3, 3)
    return x


@pattern(lambda: (vec(4), 3), lambda: (vec(4), 30))
def recursion_depth(x, n):
    if n == 0:
        raise RecursionError("deep")
    return recursion_depth(x, n - 1)


@pattern(lambda: vec(4))
def system_exit(x):
    raise SystemExit(int(x.size))


@pattern(lambda: vec(4))
def not_implemented(x):
    raise NotImplementedError


@pattern(lambda: vec(4))
def exception_group(x):
    raise ExceptionGroup("two", [ValueError(1), TypeError(str(x.shape))])


@pattern(lambda: (vec(4), 2), lambda: (vec(4), -2))
def sqrt_with_check(x, s):
    y = x * s
    if np.any(y < -5):
        raise FloatingPointError("below -5")
    return np.sqrt(y + 5)


@pattern(lambda: np.array([2, 3]), lambda: np.array([2, -3]))
def negative_exponent_caught(p):
    try:
        return 2**p
    except ValueError:
        return 2.0**p


@pattern(lambda: vec(4))
def nan_check_decides(x):
    y = np.sqrt(x)
    return np.where(np.isnan(y), 0, y), bool(np.isnan(y).any())


@pattern(lambda: mat(3, 3))
def condition_check(a):
    if np.linalg.cond(a) > 1e12:
        return "singular"
    return np.linalg.solve(a, np.ones(3))
