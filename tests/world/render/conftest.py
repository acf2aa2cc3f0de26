import random

import pytest

from contrapose.world.scene import (
    COLORS,
    MATERIALS,
    PATTERNS,
    SHAPES,
    SIZES,
    Camera,
    Ground,
    Light,
    Scene,
    Thing,
)


def random_scenes(count: int, seed: int = 0, most: int = 4) -> list[Scene]:
    """Scenes of one to `most` things that do not touch."""
    rng = random.Random(seed)  # noqa: S311
    scenes = []
    for _ in range(count):
        wanted, things = rng.randint(1, most), list[Thing]()
        while len(things) < wanted:
            size = rng.choice(list(SIZES))
            x, y = rng.uniform(-2, 2), rng.uniform(-1.6, 1.6)
            if any(
                (x - t.x) ** 2 + (y - t.y) ** 2 < (1.3 * (t.radius + SIZES[size])) ** 2
                for t in things
            ):
                wanted -= rng.random() < 0.1 and wanted > len(things)
                continue
            shape, color = rng.choice(SHAPES), rng.choice(list(COLORS))
            material, pattern = rng.choice(MATERIALS), rng.choice(PATTERNS)
            turn = rng.uniform(0, 6.28)
            things.append(Thing(shape, color, material, size, pattern, x, y, turn))
        scenes.append(
            Scene(
                tuple(things) or (Thing("ball", "red", "metal", "small", "plain", 0, 0),),
                Camera(rng.uniform(7, 9), rng.uniform(0.3, 0.6), rng.uniform(-0.4, 0.4)),
                Light(rng.uniform(-1, 1), rng.uniform(0.6, 1.3)),
                Ground(tiles=rng.choice([0.0, 0.15])),
            )
        )
    return scenes


@pytest.fixture(scope="session")
def scenes() -> list[Scene]:
    return random_scenes(24)
