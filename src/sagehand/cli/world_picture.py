"""``sagehand world render`` and ``sagehand world view``: a scene as a picture, and in the browser."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sagehand.cli.common import AsJson, announce, emit
from sagehand.errors import InputError, UnknownName

if TYPE_CHECKING:
    from sagehand.world.render import RgbdFrame
    from sagehand.world.scene import Camera, Scene

__all__ = ["RobotOption", "register", "size_of"]

RobotOption = Annotated[
    str, typer.Option("--robot", metavar="NAME|FILE", help="A robot that ships, or a description file, *.yaml.")
]
SeedOption = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", min=0, help="Draws the poses; without it the first stands in the middle."),
]
SceneArgument = Annotated[
    str, typer.Argument(metavar="SCENE", help="A scene (see `world scenes`), an object, or a scene file, *.yaml.")
]
VIEWS = ("cell", "side", "close")


def register(app: typer.Typer) -> None:
    """Add the commands to the group."""
    app.command()(render)
    app.command()(view)


def render(
    scene: SceneArgument,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The picture, *.png.")],
    depth: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Depth along the optical axis, 16-bit PNG [mm]; 0: nothing.")
    ] = None,
    segmentation: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Whose each pixel is, 8-bit PNG; 0: no one's, else by --json's names."),
    ] = None,
    seed: SeedOption = None,
    size: Annotated[str, typer.Option(metavar="WxH", help="Across and down [px].")] = "640x480",
    camera: Annotated[
        str, typer.Option(metavar="VIEW", help="cell (the robot's own), side (arm and table), or close.")
    ] = "cell",
    robot: RobotOption = "panda",
    as_json: AsJson = False,
) -> None:
    """Draw a scene: colour, depth, and whose each pixel is.

    Needs a GL driver (`sagehand doctor` tells). In the --json output width, height and intrinsics are in pixels, the
    last column of each T in metres.
    """
    from dataclasses import replace

    width, height = size_of(size)
    for path in (out, depth, segmentation):
        if path is not None and path.suffix.lower() != ".png":
            raise InputError(f"{path}: pictures are written as PNG", hint=f"as in {path.with_suffix('.png')}")
    _apart(out, depth, segmentation)
    from sagehand.world.render import SceneRenderer
    from sagehand.world.robot.description import load_robot
    from sagehand.world.scenes import load_scene

    loaded = load_scene(scene, seed)
    loaded = replace(loaded, camera=_camera(loaded, camera, width, height))
    with SceneRenderer(loaded, load_robot(robot)) as renderer:
        frame = renderer.frame()
    _write(frame, out, depth, segmentation)
    doc = _told(frame, loaded, {"out": out, "depth": depth, "segmentation": segmentation})
    emit(doc, as_json, lambda: "\n".join(str(p) for p in (out, depth, segmentation) if p is not None))


def view(
    scene: SceneArgument,
    seed: SeedOption = None,
    port: Annotated[int, typer.Option(metavar="N", help="Port to listen on.")] = 8080,
    robot: RobotOption = "panda",
    as_json: AsJson = False,
) -> None:
    """Show a scene in the browser, until Ctrl-C.

    It can be turned by hand. Only this machine can see the page.
    """
    from sagehand.interrupt import held_interrupt
    from sagehand.world.robot.description import load_robot
    from sagehand.world.scenes import load_scene
    from sagehand.world.viewer import view as open_view

    loaded, arm = load_scene(scene, seed), load_robot(robot)
    with open_view(loaded, arm, port=port) as page, held_interrupt() as asked:
        emit({"url": page.url}, as_json, page.url)
        announce("Ctrl-C ends it")
        while not asked.wait(0.2):
            pass


def size_of(text: str) -> tuple[int, int]:
    """Columns and rows of "640x480".

    Raises:
        InputError: It is no size, or beyond 16 to 4096 pixels a side.
    """
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(p.isdecimal() and 16 <= int(p) <= 4096 for p in parts):
        raise InputError(f"--size is {text!r}", hint="write 640x480; each side from 16 to 4096 pixels")
    return int(parts[0]), int(parts[1])


def _apart(*paths: Path | None) -> None:
    """Refuse one file for two pictures: the later would write over the earlier."""
    seen: set[Path] = set()
    for path in paths:
        if path is not None and path.resolve() in seen:
            raise InputError(f"{path}: two pictures cannot be written to one file", hint="give each a name of its own")
        if path is not None:
            seen.add(path.resolve())


def _camera(scene: Scene, name: str, width: int, height: int) -> Camera:
    from dataclasses import replace

    from sagehand.world.animate import camera_for

    if name not in VIEWS:
        raise UnknownName("view", name, VIEWS)
    if name == "close":
        return camera_for(scene, scene.objects[0].name, width, height)
    camera = replace(scene.camera, width=width, height=height)
    if name == "side":
        return replace(camera, eye_m=(1.25, -0.90, 0.70), look_at_m=(0.39, 0.0, 0.15))
    return camera


def _write(frame: RgbdFrame, out: Path, depth: Path | None, segmentation: Path | None) -> None:
    import numpy as np

    _png(out, frame.rgb)
    if depth is not None:
        _png(depth, np.clip(np.round(frame.depth_m * 1000), 0, 65535).astype(np.uint16))
    if segmentation is not None:
        _png(segmentation, (frame.segmentation + 1).astype(np.uint8))


def _png(path: Path, pixels: Any) -> None:
    from PIL import Image

    from sagehand.files import write_whole

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    write_whole(path, buffer.getvalue())


def _told(frame: RgbdFrame, scene: Scene, files: dict[str, Path | None]) -> dict[str, Any]:
    names = {number + 1: name for number, name in enumerate(frame.names)}
    return {
        "files": {k: None if p is None else str(p) for k, p in files.items()},
        "width": frame.width,
        "height": frame.height,
        "intrinsics": [[round(float(v), 6) for v in row] for row in frame.intrinsics],
        "T_world_camera": [[round(float(v), 9) for v in row] for row in frame.T_world_camera],
        "names": {str(n): {"name": name, "pixels": int(frame.mask(name).sum())} for n, name in names.items()},
        "objects": {
            o.name: {
                "object": o.model.name,
                "T_world_object": [[round(float(v), 9) for v in row] for row in o.T_world_object],
                "filled": o.filled,
            }
            for o in scene.objects
        },
    }
