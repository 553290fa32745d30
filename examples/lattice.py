"""Borrow memory and give it back unchanged: data hidden in lattices, passed on, and brought back.

A catalytic computation may use memory that is full already, if it leaves it as it was. Here the
memory is the states of lattices: data are combined with them by exclusive or, which the same call
undoes. Thousands of small transforms are made, in batches, and one large matrix product, which
finds the two lattices whose states are most alike.

usage: lattice.py [PICTURE.png]

Prints how much was brought back. With a file name it also draws a lattice, with the shortest path
from corner to corner, which needs Matplotlib.
"""

import sys

import numpy as np

import gpuforge as gf
from gpuforge.lattice import Lattice, batch

LATTICES = 96
READINGS = 40


def relay(lattices, letter):
    """Return `letter` after it has passed through every lattice in turn."""
    for lattice in lattices:
        letter = lattice.xor_transform(letter)
    return letter


def main():
    """Hide, pass on and compare; fail if anything came back changed."""
    rng = np.random.default_rng(0)
    lattices = [Lattice(dimensions=4, size=6, seed=seed).build() for seed in range(LATTICES)]
    before = [lattice.states.copy() for lattice in lattices]

    together = batch(lattices)
    back = 0
    for _ in range(READINGS):
        readings = [rng.integers(0, 4096, 50) for _ in lattices]
        hidden = together.xor_transform(readings)
        shown = together.xor_transform(hidden)
        back += sum(map(np.array_equal, readings, shown))
        if any(map(np.array_equal, readings, hidden)):
            raise SystemExit("a reading was not hidden: something went wrong")
    print(f"{back} of {READINGS * LATTICES} readings hidden and brought back")

    letter = b"Nothing is lost, everything is transformed."
    arrived = relay(lattices, letter)
    print("a letter through all lattices and back:", relay(lattices[::-1], arrived).decode())

    states = np.stack([lattice.states.ravel() for lattice in lattices]).astype(np.float32)
    states -= states.mean(axis=1, keepdims=True)
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    likeness = gf.matmul(states, states.T.copy())
    np.fill_diagonal(likeness, 0)
    one, other = np.unravel_index(np.argmax(likeness), likeness.shape)
    print(f"most alike: lattices {one} and {other}, correlation {likeness.max():.3f}")

    path = lattices[0].shortest_path((0, 0, 0, 0), (5, 5, 5, 5))
    analysis = lattices[0].analyze()
    print(f"corner to corner: {path.length} steps; diameter: {analysis.diameter}")
    if len(sys.argv) > 1:
        lattices[0].draw(path).savefig(sys.argv[1])

    unchanged = all(np.array_equal(a, b.states) for a, b in zip(before, lattices, strict=True))
    if not unchanged or back != READINGS * LATTICES or path.length != analysis.diameter:
        raise SystemExit("not everything came back as it was: something went wrong")


if __name__ == "__main__":
    main()
