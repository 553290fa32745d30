"""Read and write at an index, with NumPy's rules for views and copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuforge.runtime.array.array import (
    Array,
    host_of,
    is_exported,
    is_reshaped,
    make,
    node_of,
    view,
)
from gpuforge.runtime.array.elementwise import captured
from gpuforge.runtime.array.graph import Node, Shape
from gpuforge.runtime.array.index import (
    NEW,
    PLACE,
    expand,
    is_basic,
    is_mask,
    parse_basic,
    parse_plain,
)
from gpuforge.runtime.array.recorder import Recorder
from gpuforge.runtime.array.rules import broadcast, fits
from gpuforge.runtime.array.storage import is_read_only
from gpuforge.runtime.array.table import FUNCTIONS, row
from gpuforge.runtime.array.unsupported import Unsupported
from gpuforge.runtime.array.views import broadcast_to, cast, put, reshape, take, write_back

ARRAY = "array"
"""In the pattern of a gather: an index array, passed separately."""


def index_of(rest: Any) -> tuple[Any, ...]:
    """Return NumPy's index from the arguments of an index row after its arrays."""
    *given, pattern = rest
    count = pattern.count(ARRAY)
    arrays, places = iter(given[:count]), iter(given[count:])
    return tuple(
        next(arrays) if part == ARRAY
        else next(places) if part == PLACE
        else None if part == NEW
        else slice(*part)
        for part in pattern
    )  # fmt: skip


def _scatter_add(array: Any, value: Any, *rest: Any) -> Any:
    made = array.copy()
    np.add.at(made, index_of(rest), value)
    return made


def _scatter(array: Any, value: Any, *rest: Any) -> Any:
    made = array.copy()
    made[index_of(rest)] = value
    return made


GATHER = row("gather", lambda array, *rest: array[index_of(rest)], "gather")
"""array, arrays of places..., places..., pattern; the places are known to be in range"""
CHECKED_GATHER = row(
    "checked_gather", lambda array, *rest: array[index_of(rest)], "gather", raises=True
)
SCATTER = row("scatter", _scatter, "gather")
CHECKED_SCATTER = row("checked_scatter", _scatter, "gather", raises=True)
SCATTER_EACH = row("scatter_each", _scatter, "gather", raises=True)
"""array, a value for each place, arrays of places..., places..., pattern; a place may be there
twice or be out of range"""
SCATTER_ADD = row("scatter_add", _scatter_add, "gather")
"""array, a value for each place, arrays of places..., places..., pattern: values are added"""
CHECKED_SCATTER_ADD = row("checked_scatter_add", _scatter_add, "gather", raises=True)
SELECT = row("select", lambda array, mask: array[mask], "gather", raises=True)
"""array, mask over its first axes; the length of the result depends on values"""
WHERE = row("where", np.where, "elementwise")


def _place_where(array: Any, mask: Any, values: Any) -> Any:
    made = array.copy()
    made[mask] = values
    return made


PLACE_WHERE = row("place_where", _place_where, "gather", raises=True)
"""array, mask over its first axes, a value for each place where it is true"""


def getitem(array: Array, index: Any) -> Any:
    """Return ``array[index]``: a view, a copy or a scalar, as in NumPy."""
    node, recorder = node_of(array), array._recorder
    if array._scalar:
        if type(index) is tuple and not index:
            return array
        raise Unsupported("indexing a scalar")
    plain = parse_plain(index, node.shape)
    if plain is not None:
        taken = take(recorder, node, plain)
        if len(plain.places) == len(plain.pattern):
            return make(recorder, taken, scalar=True)
        return view(array, ("getitem", plain), taken)
    parts = expand(index, len(node.shape))
    parts = [_plain(part) for part in parts]
    if all(map(is_basic, parts)):
        basic = parse_basic(parts, node.shape)
        taken = take(recorder, node, basic)
        if len(basic.places) == len(basic.pattern) and not _has_ellipsis(index):
            return make(recorder, taken, scalar=True)
        return view(array, ("getitem", basic), taken)
    mask = _mask(recorder, parts, node.shape)
    if mask is not None:
        return _select(recorder, node, mask)
    arrays, places, pattern, shape, checked = _advanced(recorder, parts, node.shape)
    made = _note_places(recorder, GATHER if checked else CHECKED_GATHER,
                        (node, *arrays), places, pattern, shape, node)  # fmt: skip
    return make(recorder, made)


def setitem(array: Array, index: Any, value: Any) -> None:
    """Record ``array[index] = value`` in the memory that `array` shares with others."""
    if type(value) is Array and _is_itself(array, index, value) and not is_frozen(array):
        return
    node, recorder = node_of(array), array._recorder
    if array._scalar:
        raise Unsupported("an assignment to a scalar")
    basic = parse_plain(index, node.shape)
    parts = []
    if basic is None:
        parts = [_plain(part) for part in expand(index, len(node.shape))]
        if all(map(is_basic, parts)):
            basic = parse_basic(parts, node.shape)
    written = value_node(recorder, value, node.dtype)
    if basic is not None:
        if basic.shape == () and written.shape != () and not _has_ellipsis(index):
            raise Unsupported("a sequence in place of a single value")
        scalar = getattr(value, "_scalar", False)
        if (basic.shape == () or scalar) and _may_not_convert(written.dtype, node.dtype):
            raise Unsupported("a value of a different kind")
        whole = written.dtype.kind in "iu" and node.dtype.kind in "iu"
        if whole and scalar and not np.can_cast(written.dtype, node.dtype):
            raise Unsupported("an integer that may be beyond the dtype, for which NumPy raises")
        if broadcast(written.shape, basic.shape) != basic.shape and not _only_ones(
            written.shape, basic.shape
        ):
            raise Unsupported("a value of a different shape")
        write(array, put(recorder, node, basic, written))
        return
    written = cast(recorder, written, node.dtype)
    mask = _mask(recorder, parts, node.shape)
    if mask is not None:
        write(array, _put_where(recorder, node, mask, written))
        return
    arrays, places, pattern, shape, checked = _advanced(recorder, parts, node.shape)
    row_ = SCATTER if checked else CHECKED_SCATTER
    if written.shape != ():
        written = broadcast_to(recorder, written, _fitting(written.shape, shape))
        row_ = SCATTER if checked and _once(recorder, arrays, parts, node.shape) else SCATTER_EACH
    write(array, _note_places(recorder, row_, (node, written, *arrays), places, pattern,
                              node.shape, node))  # fmt: skip


def note_scattered(array: Array, index: Any, value: Node) -> None:
    """Record ``np.add.at``: add values at index arrays, also at repeated places."""
    node, recorder = node_of(array), array._recorder
    if np.result_type(node.dtype, value.dtype) != node.dtype:
        raise Unsupported("values of a wider dtype are added")
    parts = [_plain(part) for part in expand(index, len(node.shape))]
    mask = _mask(recorder, parts, node.shape)
    if mask is not None:
        raise Unsupported("values added where a mask is true")
    arrays, places, pattern, shape, checked = _advanced(recorder, parts, node.shape)
    value = broadcast_to(recorder, value, _fitting(value.shape, shape))
    row_ = SCATTER_ADD if checked else CHECKED_SCATTER_ADD
    write(array, _note_places(recorder, row_, (node, value, *arrays), places, pattern,
                              node.shape, node))  # fmt: skip


def _put_where(recorder: Recorder, node: Node, mask: Node, written: Node) -> Node:
    """Return `node` with values written where a mask over its first axes is true."""
    rest = node.shape[len(mask.shape) :]
    if len(written.shape) > len(rest):
        _fitting(written.shape[1:], rest)
        if len(written.shape) > len(rest) + 1:
            raise Unsupported("values of a different shape")
        if written.shape[0] != 1:
            wide = broadcast_to(recorder, written, (written.shape[0], *rest))
            return recorder.note(PLACE_WHERE, (node, mask, wide), (), node.shape, node.dtype)
        written = reshape(recorder, written, written.shape[1:])
    _fitting(written.shape, rest)
    wide = reshape(recorder, mask, mask.shape + (1,) * len(rest))
    return note_where(recorder, wide, written, node)


def _fitting(given: Shape, wanted: Shape) -> Shape:
    """Return `wanted` if `given` broadcasts to it, else raise Unsupported."""
    if broadcast(given, wanted) != wanted:
        raise Unsupported("values of a different shape")
    return wanted


def _once(recorder: Recorder, arrays: list[Node], parts: list[Any], shape: Shape) -> bool:
    """Return whether index arrays with known values select no element twice."""
    axes = [place for place, part in enumerate(p for p in parts if p is not None)
            if not is_basic(part)]  # fmt: skip
    known = [node.host for node in arrays]
    if any(host is None for host in known):
        return False
    for node in arrays:
        recorder.look_at(node)
    lengths = tuple(shape[axis] for axis in axes)
    given: Any = np.broadcast_arrays(*known)  # type: ignore[arg-type]
    front = tuple(host % n for host, n in zip(given, lengths, strict=True))
    flat = np.sort(np.ravel_multi_index(front, lengths), axis=None)
    return bool((flat[1:] != flat[:-1]).all())  # `np.unique` would import `numpy.ma`


def write(array: Array, node: Node) -> None:
    """Make `node` the value of an array, also for all arrays that share its memory.

    Raises
    ------
    NotRecordable
        If the memory was exported to NumPy: the export would not see the write.
    Unsupported
        If the caller's array is read-only, so that NumPy raises its own error.
    """
    storage = array._storage
    if storage is None:
        array._node = node
        return
    if array._recorder.exports and is_exported(array):
        raise array._recorder.refuse("an array is written into after np.asarray made an alias")
    if is_frozen(array):
        raise Unsupported("a read-only array")
    if storage.source is None and array._recorder.turned:
        # The memory order of NumPy's result may follow its operands: then the other is a copy.
        if is_reshaped(array):
            raise array._recorder.refuse("an array is written into through another shape")
        if any(one() is not None for one in storage.reshaped):
            raise array._recorder.refuse("an array is written into that has another shape, too")
    storage.node = write_back(array._recorder, storage.node, array._chain, node)
    storage.version += 1
    whole = storage.whole()
    if whole is not None:  # or else it refers to the value before, which would be computed for it
        whole._node, whole._version = storage.node, storage.version
    array._node, array._version = node, storage.version


def is_frozen(array: Array) -> bool:
    """Return whether an array would be read-only in NumPy."""
    storage = array._storage
    if storage is None:
        return False
    source = storage.source
    return is_read_only(array._chain) or (source is not None and not source.flags.writeable)


def note_where(recorder: Recorder, mask: Node, chosen: Node, other: Node) -> Node:
    """Return the node of ``np.where`` over nodes of one dtype."""
    shape = broadcast(mask.shape, chosen.shape, other.shape)
    recorder.begin()
    recorder.check(WHERE, other.dtype)
    places = (recorder.place(mask), recorder.place(chosen), recorder.place(other))
    return recorder.append(WHERE, places, (), shape, other.dtype)


def value_node(recorder: Recorder, value: Any, dtype: np.dtype[Any]) -> Node:
    """Return a node for a value that is written into an array of `dtype`.

    Raises
    ------
    Unsupported
        If it is not an array or number, or one that `dtype` cannot hold.
    """
    if type(value) is Array:
        if value._recorder is not recorder:
            return recorder.known(host_of(value))
        return node_of(value)
    if type(value) is np.ndarray:
        return captured(recorder, value)
    narrowed = isinstance(value, np.generic) and _may_not_convert(value.dtype, dtype)
    if narrowed and not abs(value) < 2**31:  # Python's floats too, but they are cast differently
        raise Unsupported(f"{value} is written as {dtype}")
    if isinstance(value, np.integer) and dtype.kind in "iu" and not fits(int(value), dtype):
        raise Unsupported(f"{value} is beyond {dtype}, for which NumPy may raise")
    if isinstance(value, bool | int | float | complex):
        return number_node(recorder, value, dtype)
    if isinstance(value, np.generic):
        return recorder.known(np.asarray(value))
    raise Unsupported(f"a {type(value).__name__} is written")


def number_node(recorder: Recorder, value: Any, dtype: np.dtype[Any]) -> Node:
    """Return a node for a number converted to `dtype`.

    Raises
    ------
    Unsupported
        If NumPy raises or warns, which it then does itself: it may find something else wrong first.
    """
    try:
        with np.errstate(over="raise", invalid="raise"):
            return recorder.known(np.array(value, dtype))
    except (OverflowError, FloatingPointError, TypeError, ValueError) as error:
        raise Unsupported(str(error)) from None


def _parts(index: Any) -> tuple[Any, ...]:
    return index if type(index) is tuple else (index,)


def _has_ellipsis(index: Any) -> bool:
    return any(part is ... for part in _parts(index))  # `in` would compare arrays with it


def _plain(part: Any) -> Any:
    """Return a part of an index with recorded integers evaluated and lists as arrays."""
    kind = type(part)
    if kind is Array:
        if part._scalar and part.dtype.kind in "iu":
            return int(part)
        if not part.shape:
            raise Unsupported("a zero-dimensional index")
        return part
    if kind is np.ndarray and not part.shape and part.dtype.kind in "iu":
        raise Unsupported("a zero-dimensional index")
    if kind is slice and any(type(end) is Array for end in (part.start, part.stop, part.step)):
        ends = (part.start, part.stop, part.step)
        return slice(*(end.__index__() if type(end) is Array else end for end in ends))
    if kind is list:
        return np.array(part, dtype=np.intp) if not part else np.asarray(part)
    return part


def _may_not_convert(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Return whether NumPy may raise when an element of one dtype is assigned to another."""
    return given.kind in "fc" and (
        wanted.kind in "iu" or (wanted.kind == "f" and given.kind == "c")
    )


def _is_itself(array: Array, index: Any, value: Array) -> bool:
    """Return whether ``array[index] = value`` is the last step of ``array[index] += ...``."""
    storage = array._storage
    if storage is None or value._storage is not storage or value._version != storage.version:
        return False
    if len(value._chain) != len(array._chain) + 1 or value._chain[:-1] != array._chain:
        return False
    name, *rest = value._chain[-1]
    if name != "getitem":
        return False
    plain = parse_plain(index, array._node.shape)
    if plain is None:
        parts = [_plain(part) for part in expand(index, len(array._node.shape))]
        if not all(map(is_basic, parts)):
            return False
        plain = parse_basic(parts, array._node.shape)
    return bool(rest[0] == plain)


def _only_ones(given: Shape, wanted: Shape) -> bool:
    """Return whether `given` fits `wanted` except for leading ones."""
    extra = len(given) - len(wanted)
    if extra <= 0 or any(length != 1 for length in given[:extra]):
        return False
    return broadcast(given[extra:], wanted) == wanted


def _mask(recorder: Recorder, parts: list[Any], shape: Shape) -> Node | None:
    """Return the mask if it is the whole index, over the first axes; else None."""
    first, *others = parts
    if not is_mask(first) or not all(is_basic(one) and one == slice(None) for one in others):
        return None
    node = node_of(first) if type(first) is Array else captured(recorder, np.asarray(first))
    if not node.shape or node.shape != shape[: len(node.shape)]:
        raise Unsupported("a mask of a different shape")
    return node


def _select(recorder: Recorder, node: Node, mask: Node) -> Array:
    recorder.begin()
    recorder.check(SELECT, node.dtype)
    places = (recorder.place(node), recorder.place(mask))
    made = recorder.append(SELECT, places, (), (0, *node.shape[len(mask.shape) :]), node.dtype)
    recorder.force()
    made.shape = tuple(int(length) for length in made.value.shape)
    return make(recorder, made)


def _advanced(
    recorder: Recorder, parts: list[Any], shape: Shape
) -> tuple[list[Node], list[int], tuple[Any, ...], Shape, bool]:
    """Return index arrays, integers, pattern, shape, and whether all are in range."""
    arrays: list[Node] = []
    places: list[int] = []
    pattern: list[Any] = []
    made: list[Any] = []
    checked, axis = True, 0
    for part in parts:
        if is_basic(part):
            basic = parse_basic([part], shape[axis : axis + 1] or (0,))
            pattern += basic.pattern
            places += basic.places
            made.append(basic.shape if not basic.places else None)
            axis += part is not None
            continue
        node = _places_node(recorder, part, shape[axis])
        checked = checked and _in_range(recorder, node, shape[axis])
        arrays.append(node)
        pattern.append(ARRAY)
        made.append(None)
        axis += 1
    together = broadcast(*(node.shape for node in arrays))
    return arrays, places, tuple(pattern), _placed(made, together), checked


def _places_node(recorder: Recorder, part: Any, length: int) -> Node:
    """Return the node of an index array, or of the places where a mask over an axis is true."""
    if is_mask(part):
        if np.shape(part) != (length,):
            raise Unsupported("a mask over several axes beside other indices")
        return node_of(FUNCTIONS[np.nonzero](recorder, part)[0])
    if type(part) is Array:
        node = node_of(part)
    elif type(part) is np.ndarray:
        node = captured(recorder, part)
    else:
        raise Unsupported(f"an index that is a {type(part).__name__}")
    if node.dtype.kind not in "iu":
        raise Unsupported(f"an index of dtype {node.dtype}")
    return cast(recorder, node, np.dtype(np.intp))


def _in_range(recorder: Recorder, node: Node, length: int) -> bool:
    """Return whether an index array with known values is in range.

    Raises
    ------
    Unsupported
        If a known value is out of range, so that NumPy raises its own error.
    """
    host = node.host
    if host is None:
        return False
    recorder.look_at(node)
    if host.size and (host.min() < -length or host.max() >= length):
        raise Unsupported("an index out of range")
    return True


def _placed(made: list[Any], together: Shape) -> Shape:
    """Return the shape of a gather; non-adjacent index arrays put their axes in front."""
    spots = [place for place, shape in enumerate(made) if shape is None]
    apart = spots[-1] - spots[0] + 1 != len(spots)
    shape: list[int] = list(together) if apart else []
    for place, one in enumerate(made):
        if one is None:
            if not apart and place == spots[0]:
                shape += together
        else:
            shape += one
    return tuple(shape)


def _note_places(
    recorder: Recorder, operation: Any, nodes: tuple[Node, ...], places: list[int],
    pattern: tuple[Any, ...], shape: Shape, like: Node,
) -> Node:  # fmt: skip
    recorder.begin()
    recorder.check(operation, like.dtype)
    given = (*map(recorder.place, nodes), *map(recorder.number, places))
    node = recorder.append(operation, given, (pattern,), shape, like.dtype)
    if operation.raises:
        recorder.force()
    return node


def assign_all(array: Array, value: Node) -> None:
    """Write a value over all of an array, cast and broadcast as NumPy does."""
    node = node_of(array)
    value = cast(array._recorder, value, node.dtype)
    write(array, broadcast_to(array._recorder, value, node.shape))
