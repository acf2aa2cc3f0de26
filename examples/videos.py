"""Write short videos of rendered scenes that change, and their annotations in four forms.

    python examples/videos.py demo
    contrapose eval tiny-clip --on demo/spans.jsonl
    contrapose build graph demo/graph.json --videos demo/videos --out graph
    contrapose build boundaries demo/boundaries.json --videos demo/videos --out boundaries
    contrapose build steps demo/steps.json --videos demo/videos --out steps

In every video a cube goes around a ball. `broken.mp4` is empty, as after a failed download.
"""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import av

from contrapose.world.render import render
from contrapose.world.scene import Color, Scene, Thing

COLORS: tuple[tuple[Color, Color], ...] = (
    ("red", "cyan"),
    ("yellow", "blue"),
    ("green", "pink"),
    ("purple", "orange"),
    ("blue", "red"),
    ("cyan", "brown"),
)
STATIONS = (
    ("to the left of", "on_the_side_of", -1.6, 0.0),
    ("in front of", "in_front_of", 0.0, -1.7),
    ("to the right of", "on_the_side_of", 1.6, 0.0),
    ("behind", "behind", 0.5, 1.8),
)
"""Where the cube is seen from the ball, in words and as Action Genome names it; x and y."""
FPS, SECONDS, SIZE = 10, 1, 96


def scenes(ball: Color, cube: Color) -> list[Scene]:
    """Scenes of a video, frame by frame: the cube stands a while, then jumps."""
    frames = []
    for _, _, x, y in STATIONS:
        things = (
            Thing("ball", ball, "rubber", "medium", "plain", 0.0, 0.0),
            Thing("cube", cube, "rubber", "medium", "plain", x, y),
        )
        frames += [Scene(things)] * (FPS * SECONDS)
    return frames


def write_video(path: Path, frames: list[Scene]) -> None:
    """Encode the scenes with a common codec."""
    distinct = list(dict.fromkeys(frames))
    images = dict(zip(distinct, render(distinct, SIZE).images, strict=True))
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("mpeg4", rate=FPS, bit_rate=1_000_000)
        stream.width = stream.height = SIZE
        stream.pix_fmt = "yuv420p"
        for i, scene in enumerate(frames):
            frame: Any = av.VideoFrame.from_ndarray(images[scene].numpy(), format="rgb24")
            frame.pts, frame.time_base = i, Fraction(1, FPS)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def annotate(name: str, ball: Color, cube: Color) -> tuple[Any, Any, Any]:
    """Annotations of a video as scene graphs, as event boundaries and as steps."""
    subject, other = (
        f"{'an' if color == 'orange' else 'a'} {color} {shape}"
        for color, shape in ((cube, "cube"), (ball, "ball"))
    )
    phrases = [f"is {words} {other}" for words, _, _, _ in STATIONS]
    end = SECONDS * len(STATIONS)
    graph = {}
    for i, (_, spatial, _, y) in enumerate(STATIONS):
        for step in (2, 7):
            graph[f"{name}.mp4/{FPS * SECONDS * i + step:06d}.png"] = [
                {
                    "class": f"{cube} cube",
                    "visible": True,
                    "attention_relationship": ["looking_at" if y <= 0 else "not_looking_at"],
                    "spatial_relationship": [spatial],
                    "contacting_relationship": ["touching" if i == 1 else "not_contacting"],
                }
            ]
    boundaries = [
        {
            "boundary_id": f"{name}_{i}",
            "timestamp": SECONDS * (i + 1),
            "prev_timestamp": SECONDS * i,
            "next_timestamp": min(SECONDS * (i + 2), end),
            "label": "Change of Action",
            "subject": subject,
            "status_before": phrases[i],
            "status_after": phrases[i + 1],
        }
        for i in range(len(STATIONS) - 1)
    ]
    steps = {
        "annotations": [
            {"segment": [SECONDS * i, SECONDS * (i + 1)], "sentence": f"{subject} {phrase}"}
            for i, phrase in enumerate(phrases)
        ]
    }
    return graph, boundaries, steps


def list_spans(name: str, steps: Any) -> list[dict[str, Any]]:
    """Steps of a video as examples: its span, the right sentence, and that of the next step."""
    sentences = [step["sentence"] for step in steps["annotations"]]
    return [
        {
            "id": f"{name}-{i}",
            "video": f"videos/{name}.mp4",
            "start": step["segment"][0],
            "end": step["segment"][1],
            "texts": [sentences[i], sentences[(i + 1) % len(sentences)]],
            "right": 0,
        }
        for i, step in enumerate(steps["annotations"])
    ]


def write_demo(folder: Path, videos: int = len(COLORS)) -> None:
    """Write the videos and the annotation files."""
    (folder / "videos").mkdir(parents=True, exist_ok=True)
    graph: dict[str, Any] = {}
    boundaries: dict[str, Any] = {}
    steps: dict[str, Any] = {}
    for number, (ball, cube) in enumerate((*COLORS[:videos], COLORS[0])):
        name = f"scene{number}" if number < videos else "broken"
        path = folder / "videos" / f"{name}.mp4"
        if name == "broken":
            path.write_bytes(b"")
        else:
            write_video(path, scenes(ball, cube))
        some, boundaries[name], steps[name] = annotate(name, ball, cube)
        graph.update(some)
    for file, value in (
        ("graph", graph),
        ("boundaries", boundaries),
        ("steps", {"database": steps}),
    ):
        (folder / f"{file}.json").write_text(json.dumps(value, indent=1), encoding="utf-8")
    spans = [json.dumps(span) + "\n" for name in steps for span in list_spans(name, steps[name])]
    (folder / "spans.jsonl").write_text("".join(spans), encoding="utf-8")


if __name__ == "__main__":
    write_demo(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
