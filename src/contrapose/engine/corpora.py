"""Word lists that stand for all texts: subjects and styles of images, for BASIC and for averages.

BASIC keeps the directions in which subjects differ and drops those in which styles differ; the mean
of the subjects is the neutral text that a removed word is replaced by.
"""

from __future__ import annotations

from pathlib import Path

from contrapose.errors import InputError
from contrapose.files import StrictProblems, read_lines


def _split(words: str) -> tuple[str, ...]:
    return tuple(" ".join(word.split()) for word in words.split(","))


SUBJECTS = _split("""
    person, man, woman, child, baby, crowd, dog, cat, horse, cow, sheep, bird, fish, bear,
    elephant, zebra, giraffe, monkey, rabbit, mouse, snake, frog, insect, butterfly, spider,
    tree, flower, grass, leaf, fruit, apple, banana, orange, vegetable, bread, cake, pizza,
    meat, cheese, egg, plate, bowl, cup, bottle, glass, knife, fork, spoon, table, chair, couch,
    bed, desk, shelf, lamp, clock, mirror, window, door, wall, floor, house, building, tower,
    bridge, church, castle, street, road, sidewalk, train, bus, car, truck, bicycle, motorcycle,
    boat, ship, airplane, helicopter, traffic light, sign, bench, fence, park, garden, field,
    forest, mountain, hill, rock, river, lake, sea, beach, sky, cloud, sun, moon, snow, fire,
    phone, computer, keyboard, television, camera, book, newspaper, pen, bag, suitcase,
    umbrella, hat, shirt, dress, coat, trousers, shoe, tie, glove, watch, ring, ball, kite,
    skateboard, surfboard, ski, racket, guitar, piano, drum, toy, doll, statue, coin, key,
    candle, box, basket, cube, sphere, cylinder, cone, pyramid, puppy, backpack, handbag, skirt,
    frisbee, skis, snowboard, baseball bat, tennis racket, wine glass, sandwich, broccoli,
    carrot, hot dog, donut, potted plant, toilet, laptop, remote control, microwave, oven,
    toaster, sink, refrigerator, vase, scissors, teddy bear, hair dryer, toothbrush, curtain,
    fountain, road sign, square, circle, triangle, star
""")
"""Things that images show."""

STYLES = _split("""
    a drawing, a painting, a sketch, a cartoon, a sculpture, a toy, an origami, a tattoo, an
    embroidery, a black and white photo, a blurry photo, a dark photo, a bright photo, a
    close-up, seen from above, seen from behind, in the background, in the snow, in the rain, in
    the fog, in the grass, in the water, in the street, in the forest, on the beach, indoors,
    outdoors, at night, at sunset, in autumn, in winter, larger, smaller, more colorful, in red,
    in blue, in green, two of them, many of them, none
""")
"""Ways in which images show things."""


def read_texts(file: Path) -> tuple[str, ...]:
    """Read distinct texts from a file with a text a line.

    Raises:
        InputError: the file cannot be read, or holds no text.
    """
    texts = tuple(dict.fromkeys(line for _, line in read_lines(file, StrictProblems())))
    if not texts:
        raise InputError("holds no text; one a line is expected.", file=file)
    return texts
