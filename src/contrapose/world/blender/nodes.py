"""Shader nodes of Blender: arithmetic on sockets, and the materials of things, ground and sky.

Sockets and nodes are objects of `bpy`, which has no types.
"""

from __future__ import annotations

from typing import Any

from contrapose.world.blender.stage import Body, Stage
from contrapose.world.scene import (
    BAND,
    CHECK,
    CUBE_CHECK,
    CUBE_SIDE,
    HAZE_FROM,
    HAZE_GROWTH,
    PILL_START,
    PILL_THICKNESS,
    RGB,
)

Socket = Any
Value = Any
"""A socket, or a number."""

SKY_FADE = 0.35
"""How much darker the sky is one unit above the horizon."""


MIRROR_GAIN = 1.5
"""How much brighter mirrors see the sky than the camera does."""


class ShaderGraph:
    """Node tree of a material or a world, with arithmetic on its sockets."""

    def __init__(self, owner: Any):
        owner.use_nodes = True
        self.tree = owner.node_tree
        self.tree.nodes.clear()

    def add(self, kind: str, **inputs: Value) -> Any:
        """Add a node; inputs are numbers, colors or sockets, by name with `_` for a space."""
        node = self.tree.nodes.new(kind)
        for name, value in inputs.items():
            self.connect(node.inputs[name.replace("_", " ")], value)
        return node

    def connect(self, socket: Socket, value: Value) -> None:
        """Set an input to a number or a color, or link a socket to it."""
        if isinstance(value, int | float):
            socket.default_value = float(value)
        elif isinstance(value, tuple):
            socket.default_value = (*value, 1.0)
        else:
            self.tree.links.new(value, socket)

    def math(self, operation: str, first: Value, second: Value = 0.0) -> Socket:
        """Result of a math node."""
        node = self.tree.nodes.new("ShaderNodeMath")
        node.operation = operation
        self.connect(node.inputs[0], first)
        self.connect(node.inputs[1], second)
        return node.outputs[0]

    def clamp(self, value: Value) -> Socket:
        """Value between 0 and 1."""
        return self.math("MINIMUM", self.math("MAXIMUM", value, 0.0), 1.0)

    def odd(self, value: Value) -> Socket:
        """1 where the whole part of a value is odd, else 0."""
        return self.math("FLOORED_MODULO", self.math("FLOOR", value), 2.0)

    def xor(self, *values: Socket) -> Socket:
        """1 where an odd number of sockets is 1, else 0."""
        result = values[0]
        for value in values[1:]:
            result = self.math("ABSOLUTE", self.math("SUBTRACT", result, value))
        return result

    def mix(self, share: Value, first: Value, second: Value) -> Socket:
        """Mixture of two colors; a share of 1 is the second."""
        node = self.tree.nodes.new("ShaderNodeMix")
        node.data_type = "RGBA"
        self.connect(node.inputs[0], share)
        self.connect(node.inputs[6], first)
        self.connect(node.inputs[7], second)
        return node.outputs[2]

    def scale(self, color: Value, factor: Value) -> Socket:
        """Color times a number."""
        return self.mix(factor, (0.0, 0.0, 0.0), color)

    def split(self, vector: Socket) -> tuple[Socket, Socket, Socket]:
        """x, y and z of a vector."""
        outputs = self.add("ShaderNodeSeparateXYZ", Vector=vector).outputs
        return outputs[0], outputs[1], outputs[2]


def paint_body(graph: ShaderGraph, body: Body) -> None:
    """Material of a thing: its color with its pattern, dull rubber or polished metal."""
    paint: Value = body.paint
    if body.thing.pattern != "plain":
        paint = graph.mix(_pale_share(graph, body), body.paint, body.pale)
    shader = graph.add(
        "ShaderNodeBsdfPrincipled",
        Base_Color=paint,
        Metallic=body.metallic,
        Roughness=body.roughness,
        Specular_IOR_Level=0.3,
    )
    graph.add("ShaderNodeOutputMaterial", Surface=shader.outputs[0])


def _pale_share(graph: ShaderGraph, body: Body) -> Socket:
    """1 on pale bands or checks, 0 elsewhere, as the ray tracer has them."""
    x, y, z = graph.split(graph.add("ShaderNodeTexCoord").outputs["Object"])
    shape, pill = body.thing.shape, body.thing.shape == "pill"
    along = graph.math("ADD", x, PILL_START) if pill else z
    along = graph.math("MAXIMUM", along, 1e-3)
    if body.thing.pattern == "striped":
        return graph.odd(graph.math("DIVIDE", along, BAND))
    if shape == "cube":
        height = graph.math("SUBTRACT", z, CUBE_SIDE)
        sizes = (graph.math("ABSOLUTE", axis) for axis in (x, y, height))
        return graph.xor(*(graph.math("LESS_THAN", size, CUBE_CHECK) for size in sizes))
    one, other = (graph.math("SUBTRACT", z, PILL_THICKNESS) if pill else x), y
    return graph.xor(
        graph.odd(graph.math("DIVIDE", along, CHECK)),
        graph.math("GREATER_THAN", one, 0.0),
        graph.math("GREATER_THAN", other, 0.0),
        graph.math("GREATER_THAN", graph.math("ABSOLUTE", one), graph.math("ABSOLUTE", other)),
    )


def paint_ground(graph: ShaderGraph, stage: Stage) -> None:
    """Material of the plane: tiles, and haze that fades it into the sky far away."""
    x, y, _ = graph.split(graph.add("ShaderNodeNewGeometry").outputs["Position"])
    tile = graph.odd(graph.math("ADD", graph.math("FLOOR", x), graph.math("FLOOR", y)))
    shade = graph.math("SUBTRACT", 1.0, graph.math("MULTIPLY", tile, stage.tiles))
    dull = graph.add("ShaderNodeBsdfDiffuse", Color=graph.scale(stage.ground, shade))
    depth = graph.add("ShaderNodeCameraData").outputs["View Z Depth"]
    beyond = graph.math("MULTIPLY", graph.math("SUBTRACT", depth, HAZE_FROM), HAZE_GROWTH)
    camera = graph.add("ShaderNodeLightPath").outputs["Is Camera Ray"]
    haze = graph.math("MULTIPLY", graph.clamp(beyond), camera)
    far = graph.add("ShaderNodeEmission", Color=stage.sky)
    node = graph.add("ShaderNodeMixShader")
    graph.connect(node.inputs[0], haze)
    graph.connect(node.inputs[1], dull.outputs[0])
    graph.connect(node.inputs[2], far.outputs[0])
    graph.add("ShaderNodeOutputMaterial", Surface=node.outputs[0])


def paint_sky(graph: ShaderGraph, stage: Stage) -> None:
    """World: the camera and mirrors see the sky, dull surfaces get even gray light."""
    direction = graph.add("ShaderNodeTexCoord").outputs["Generated"]
    x, y, z = graph.split(direction)
    parts = (
        graph.math("MULTIPLY", axis, part)
        for axis, part in zip((x, y, z), stage.ahead, strict=True)
    )
    depth = graph.math("ADD", graph.math("ADD", next(parts), next(parts)), next(parts))
    height = graph.clamp(graph.math("DIVIDE", z, graph.math("MAXIMUM", depth, 0.05)))
    fade = graph.math("SUBTRACT", 1.0, graph.math("MULTIPLY", height, SKY_FADE))
    path = graph.add("ShaderNodeLightPath").outputs
    seen = graph.math("MAXIMUM", path["Is Camera Ray"], path["Is Glossy Ray"])
    gray = (stage.ambient,) * 3
    color = graph.mix(seen, gray, graph.scale(stage.sky, fade))
    glossy = graph.math("MULTIPLY", path["Is Glossy Ray"], MIRROR_GAIN - 1.0)
    strength = graph.math("ADD", glossy, 1.0)
    background = graph.add("ShaderNodeBackground", Color=color, Strength=strength)
    graph.add("ShaderNodeOutputWorld", Surface=background.outputs[0])


def paint_flat(graph: ShaderGraph, color: RGB) -> None:
    """Material of one flat color that no light changes."""
    shader = graph.add("ShaderNodeEmission", Color=color)
    graph.add("ShaderNodeOutputMaterial", Surface=shader.outputs[0])
