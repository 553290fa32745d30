"""Follow thousands of asteroids that share Jupiter's orbit, and see which of them stay.

The Sun and Jupiter circle their common centre; asteroids too light to disturb them start all along
Jupiter's orbit, at rest as seen from Jupiter, and move in the field of both. Most swing about a
point 60 degrees before or behind Jupiter and never leave their side of the Sun: these are the
Trojans. By theory they are those that start more than 23.9 degrees from Jupiter, 87 % of all.
Units: the distance from the Sun to Jupiter, and 1/2π of Jupiter's year.

Sources: mass of Jupiter, JPL, "Astrodynamic Parameters" (1/1047.3486 of the Sun's); 23.9 degrees:
Murray and Dermott, "Solar System Dynamics", chapter 3.

Prints what became of the asteroids, and how well the quantity that this motion conserves (the
Jacobi constant) was kept. Needs nothing but gpuforge.
"""

import numpy as np

import gpuforge as gf

JUPITER = 1 / (1047.3486 + 1)  # its share of the mass of both
ASTEROIDS = 12_000
YEARS = 15  # of Jupiter: one swing of a Trojan takes about 12.5
STEPS_A_YEAR = 200
STEPS_A_CALL = 20
HILL_RADIUS = (JUPITER / 3) ** (1 / 3)


@gf.offload
def advance(position, velocity, sun, jupiter, step):
    """Return positions and velocities after one leapfrog step per row of `sun` and `jupiter`."""
    xp = gf.namespace(position)
    for place in range(sun.shape[0]):
        position = position + velocity * (step / 2)
        pull = position * 0.0
        for body, mass in ((sun[place, :], 1 - JUPITER), (jupiter[place, :], JUPITER)):
            away = position - body
            distance = xp.sqrt(xp.sum(away * away, axis=1, keepdims=True) + 1e-10)
            pull = pull - away * (mass / distance**3)
        velocity = velocity + pull * step
        position = position + velocity * (step / 2)
    return position, velocity


@gf.offload
def jacobi_constant(position, velocity, sun, jupiter):
    """Return what each asteroid's motion conserves."""
    xp = gf.namespace(position)
    spin = position[:, 0] * velocity[:, 1] - position[:, 1] * velocity[:, 0]
    to_sun = xp.sqrt(xp.sum((position - sun) ** 2, axis=1))
    to_jupiter = xp.sqrt(xp.sum((position - jupiter) ** 2, axis=1))
    potential = (1 - JUPITER) / to_sun + JUPITER / to_jupiter
    return 2 * spin + 2 * potential - xp.sum(velocity * velocity, axis=1)


def bodies(times):
    """Return the positions of the Sun and of Jupiter at `times`, one row each."""
    direction = np.stack([np.cos(times), np.sin(times)], axis=1)
    return -JUPITER * direction, (1 - JUPITER) * direction


def main():
    """Follow them for `YEARS`; fail if the motion did not conserve what it must."""
    start = np.linspace(0, 2 * np.pi, ASTEROIDS, endpoint=False)
    position = np.stack([np.cos(start), np.sin(start)], axis=1)
    velocity = np.stack([-np.sin(start), np.cos(start)], axis=1)
    sun, jupiter = bodies(np.zeros(1))
    before = jacobi_constant(position, velocity, sun, jupiter)
    step = 2 * np.pi / STEPS_A_YEAR
    nearest, farthest = np.full(ASTEROIDS, np.pi), np.zeros(ASTEROIDS)
    for first in range(0, YEARS * STEPS_A_YEAR, STEPS_A_CALL):
        sun, jupiter = bodies((first + np.arange(STEPS_A_CALL) + 0.5) * step)
        position, velocity = advance(position, velocity, sun, jupiter, step)
        now = (first + STEPS_A_CALL) * step
        angle = (np.arctan2(position[:, 1], position[:, 0]) - now) % (2 * np.pi)
        nearest = np.minimum(nearest, np.minimum(angle, 2 * np.pi - angle))
        farthest = np.maximum(farthest, np.abs(np.where(start < np.pi, angle, 2 * np.pi - angle)))
    sun, jupiter = bodies(np.asarray([YEARS * 2 * np.pi]))
    drift = np.abs(jacobi_constant(position, velocity, sun, jupiter) - before)
    radius = np.linalg.norm(position, axis=1)
    kept = (np.abs(radius - 1) < 0.2) & (nearest > 3 * HILL_RADIUS)
    trojans = kept & (farthest < np.pi)
    print(f"{ASTEROIDS} asteroids, {YEARS} years of Jupiter")
    print(f"stay on their side of the Sun (Trojans): {np.mean(trojans):.1%}")
    print(f"swing past the far side: {np.mean(kept & ~trojans):.1%}")
    print(f"come near Jupiter: {np.mean(~kept):.1%}")
    print(f"worst drift of the Jacobi constant: {np.max(drift[kept]):.1e}")
    if not (np.max(drift[kept]) < 1e-3 and abs(np.mean(trojans) - 0.867) < 0.03):
        raise SystemExit("this is not how asteroids move: something went wrong")


if __name__ == "__main__":
    main()
