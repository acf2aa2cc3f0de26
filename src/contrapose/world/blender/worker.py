"""Worker process that holds Blender: reads one JSON request a line, answers with one JSON line.

Blender runs in a process of its own because it writes to the standard streams as it likes, keeps
its state in globals, and is compiled against its own libraries. The worker ends when its input
does, so that it never outlives the program that started it, and removes the folder of its images.

    python -m contrapose.world.blender.worker FOLDER
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from contrapose.world.blender.meshes import shape_mesh
from contrapose.world.blender.nodes import (
    ShaderGraph,
    paint_body,
    paint_flat,
    paint_ground,
    paint_sky,
)
from contrapose.world.blender.stage import LAMP_ANGLE, Body, Stage, set_stage
from contrapose.world.scene import Scene

MASK_STEP = 40
"""Step of the red value of an index map from one thing to the next; 0 is ground and sky."""
GROUND_REACH = 400.0
"""Half the side of the ground plane."""
SHARP_ANGLE = 0.6
"""Angle of two faces, in radians, from which on their edge is not smoothed."""


class BlenderStudio:
    """Blender's one scene, emptied and filled anew for every image."""

    def __init__(self) -> None:
        import bpy

        self.bpy = bpy
        self.version: str = bpy.app.version_string
        bpy.ops.wm.read_factory_settings(use_empty=True)
        self.scene: Any = bpy.context.scene
        self.scene.render.engine = "CYCLES"
        self.scene.view_settings.look = "None"
        self.scene.render.dither_intensity = 0.0
        self.scene.render.resolution_percentage = 100
        self.scene.render.image_settings.file_format = "PNG"
        self.scene.render.image_settings.color_mode = "RGB"
        cycles = self.scene.cycles
        cycles.device, cycles.seed, cycles.use_animated_seed = "CPU", 0, False
        cycles.use_adaptive_sampling = False
        cycles.max_bounces, cycles.diffuse_bounces, cycles.glossy_bounces = 4, 2, 3
        cycles.caustics_reflective = cycles.caustics_refractive = False
        cycles.denoiser = "OPENIMAGEDENOISE"
        cycles.denoising_quality = "FAST"
        cycles.use_light_tree = False  # there is one lamp

    def draw(self, request: dict[str, Any]) -> None:
        """Render one request: the image, and its index map if a file is named for it."""
        scene = Scene.from_json(request["scene"])
        stage = set_stage(scene)
        self._clear()
        self.scene.render.resolution_x = self.scene.render.resolution_y = request["size"]
        self._place_camera(stage)
        bodies = [self._place_body(body) for body in stage.bodies]
        ground = self._place_ground()
        self._light(stage)
        for shape, body in zip(bodies, stage.bodies, strict=True):
            paint_body(self._new_graph(shape), body)
        paint_ground(self._new_graph(ground), stage)
        self._render(request["image"], request["samples"])
        if request.get("mask"):
            for index, shape in enumerate(bodies):
                red = MASK_STEP * (index + 1) / 255
                paint_flat(self._new_graph(shape), (red, 0.0, 0.0))
            paint_flat(self._new_graph(ground), (0.0, 0.0, 0.0))
            self.scene.world = None
            self._render(request["mask"], 0)

    def _clear(self) -> None:
        data = self.bpy.data
        for blocks in (data.objects, data.meshes, data.materials, data.lights, data.cameras,
                       data.worlds):  # fmt: skip
            for block in list(blocks):
                blocks.remove(block)

    def _add(self, name: str, data: Any) -> Any:
        thing = self.bpy.data.objects.new(name, data)
        self.scene.collection.objects.link(thing)
        return thing

    def _new_graph(self, shape: Any) -> ShaderGraph:
        """Shader graph of a new material, which replaces that of an object."""
        material = self.bpy.data.materials.new("paint")
        shape.data.materials.clear()
        shape.data.materials.append(material)
        return ShaderGraph(material)

    def _place_camera(self, stage: Stage) -> None:
        from mathutils import Matrix

        camera = self.bpy.data.cameras.new("camera")
        camera.angle = stage.view
        camera.clip_start, camera.clip_end = 0.01, 10 * GROUND_REACH
        placed = self._add("camera", camera)
        columns = (stage.right, stage.up, tuple(-part for part in stage.ahead), stage.eye)
        rows = [[column[axis] for column in columns] for axis in range(3)]
        placed.matrix_world = Matrix([*rows, [0.0, 0.0, 0.0, 1.0]])
        self.scene.camera = placed

    def _place_body(self, body: Body) -> Any:
        shape = shape_mesh(body.thing.shape)
        mesh = self.bpy.data.meshes.new(body.thing.shape)
        mesh.from_pydata(shape.points, [], shape.faces)
        mesh.polygons.foreach_set("use_smooth", [True] * len(shape.faces))
        mesh.set_sharp_from_angle(angle=SHARP_ANGLE)
        placed = self._add(body.thing.shape, mesh)
        placed.location = body.position
        placed.rotation_euler = (0.0, 0.0, body.thing.turn)
        placed.scale = (body.thing.radius,) * 3
        return placed

    def _place_ground(self) -> Any:
        mesh = self.bpy.data.meshes.new("ground")
        reach = GROUND_REACH
        corners = [(-reach, -reach, 0), (reach, -reach, 0), (reach, reach, 0), (-reach, reach, 0)]
        mesh.from_pydata(corners, [], [(0, 1, 2, 3)])
        return self._add("ground", mesh)

    def _light(self, stage: Stage) -> None:
        from mathutils import Vector

        lamp = self.bpy.data.lights.new("lamp", "SUN")
        lamp.energy, lamp.angle = stage.energy, LAMP_ANGLE
        placed = self._add("lamp", lamp)
        placed.rotation_mode = "QUATERNION"
        placed.rotation_quaternion = Vector(stage.lamp).to_track_quat("Z", "Y")
        world = self.bpy.data.worlds.new("sky")
        self.scene.world = world
        world.cycles.sampling_method = "NONE"  # its light is even: no map of it is needed
        paint_sky(ShaderGraph(world), stage)

    def _render(self, file: str, samples: int) -> None:
        """Render to a file; without samples, one ray through the middle of each pixel."""
        cycles = self.scene.cycles
        exact = samples == 0
        cycles.samples = max(samples, 1)
        cycles.use_denoising = not exact
        cycles.pixel_filter_type = "BOX" if exact else "BLACKMAN_HARRIS"
        cycles.filter_width = 0.01 if exact else 1.5
        self.scene.view_settings.view_transform = "Raw" if exact else "Standard"
        self.scene.render.filepath = file
        self.bpy.ops.render.render(write_still=True)


def main() -> int:
    """Serve requests until the input ends; the exit status."""
    # Blender writes to the standard output: it gets the log instead, and answers their own stream.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**value: object) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    try:
        studio = BlenderStudio()
    except Exception as error:
        answer(error=f"{type(error).__name__}: {error}")
        return 1
    answer(version=studio.version)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            studio.draw(request)
            answer(done=Path(request["image"]).exists())
        except Exception as error:
            answer(error=f"{type(error).__name__}: {error}")
    shutil.rmtree(sys.argv[1], ignore_errors=True)  # the program may have been killed
    return 0


if __name__ == "__main__":
    sys.exit(main())
