"""``sagehand study record``: a data set while the cell runs."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sagehand.cli.common import AsJson, announce, announce_warnings, emit, finish, library_at, settings, table
from sagehand.errors import InputError

if TYPE_CHECKING:
    from sagehand.action.library import ActionLibrary
    from sagehand.study.dataset.capture import Choice, RecordReport
    from sagehand.study.dataset.events import Source
    from sagehand.study.dataset.session import Session

__all__ = ["register"]


class _Group(StrEnum):
    """What counts as near-duplicates."""

    STEP = "step"
    RUN = "run"
    NONE = "none"


def register(app: typer.Typer) -> None:
    """Add the command to the group."""
    app.command()(record)


def record(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The data set; runs of before stay in it.")],
    family: Annotated[str | None, typer.Option(help="The device's family.")] = None,
    device: Annotated[str | None, typer.Option(help="The device (model); one run of one device a call.")] = None,
    camera: Annotated[
        str | None, typer.Option(metavar="INDEX|URL", help="A camera; lines on stdin say what to do.")
    ] = None,
    bag: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A ROS bag: a .bag file, or a ROS 2 bag's folder.")
    ] = None,
    frames: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder that pictures appear in, a_depth.png beside a.jpg.")
    ] = None,
    image_topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Of the bag; where it has several.")] = None,
    depth_topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Depth aligned to the pictures.")] = None,
    info_topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="CameraInfo. Default: the one beside the pictures.")
    ] = None,
    action_topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="std_msgs/String: what was just done.")
    ] = None,
    events: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What was done, one 'TIME ACTION' a line, for a bag or frames.")
    ] = None,
    actions: Annotated[
        Path | None,
        typer.Option(
            "--actions", metavar="FILE", help="The action library. Default: DIR/actions.yaml, if it is there."
        ),
    ] = None,
    place: Annotated[str | None, typer.Option(help="Where the device is at first.")] = None,
    place_after: Annotated[
        list[str] | None, typer.Option(metavar="ACTION=PLACE", help="Where it is after an action; repeat it.")
    ] = None,
    done: Annotated[
        str | None, typer.Option(metavar="ACTIONS", help="What was done before, as lever,place_in_cnc.")
    ] = None,
    group: Annotated[
        _Group, typer.Option(help="What counts as near-duplicates: pictures of one step of the run, …")
    ] = (_Group.STEP),
    every: Annotated[
        float | None,
        typer.Option(help="Time between pictures [s]. Default: 1 for a bag, 0 for frames; a camera waits for 'snap'."),
    ] = None,
    per_step: Annotated[int | None, typer.Option(help="Most pictures of a step.")] = None,
    settle: Annotated[float, typer.Option(help="No picture so long after an action [s].")] = 0.0,
    lead: Annotated[float, typer.Option(help="No picture so long before an action is done [s] (bag, --events).")] = 0.0,
    complete: Annotated[
        bool, typer.Option("--complete", help="Nothing remains after the last action, though no 'end' says so.")
    ] = False,
    end_open: Annotated[
        bool, typer.Option("--finish", help="End a recording that was stopped, as it is, without a source.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Record one run of a device from a camera, a bag or a folder; the labels follow from what was done.

    Lines: an ACTION that was just done; 'at PLACE'; 'snap' (a camera takes a picture); 'end' (nothing remains to be
    done). Run the same command again to go on after a stop.
    """
    from sagehand.study.dataset.capture import Choice, finish_recording

    library = _library(out, actions)
    announce_warnings(library)
    if end_open:
        report = finish_recording(out, library=library, complete=complete)
    else:
        session = _session(family, device, place, place_after or [], done, group)
        choice = Choice(None if camera is not None else every, per_step, settle, lead)
        topics = {"image": image_topic, "depth": depth_topic, "info": info_topic, "action": action_topic}
        source = _source(camera, bag, frames, events, topics, every)
        report = _recorded(out, source, session, library, choice, complete)
    for line in report.flagged:
        announce(line)
    emit(report.to_dict(), as_json, lambda: _text(report))
    finish(1 if report.flagged else 0)


def _library(out: Path, actions: Path | None) -> ActionLibrary | None:
    own = out / "actions.yaml"
    return library_at(actions or (own if own.exists() else settings().actions))


def _session(
    family: str | None, device: str | None, place: str | None, place_after: list[str], done: str | None, group: _Group
) -> Session:
    from sagehand.study.dataset.session import Session

    if family is None or device is None:
        raise InputError("a recording needs --family and --device", hint="name what is taken apart")
    places: dict[str, str] = {}
    for text in place_after:
        action, _, where = (part.strip() for part in text.partition("="))
        if not action or not where:
            raise InputError(f"--place-after {text!r} is no ACTION=PLACE", hint="as place_in_vise=vise")
        places[action] = where
    before = tuple(name.strip() for name in (done or "").split(",") if name.strip())
    return Session(family, device, place, places, before, group.value)


def _source(
    camera: str | None,
    bag: Path | None,
    frames: Path | None,
    events: Path | None,
    topics: dict[str, str | None],
    every: float | None,
) -> Source:
    from sagehand.study.dataset.bag import BagSource, Topics
    from sagehand.study.dataset.camera import CameraSource
    from sagehand.study.dataset.frames import FramesSource
    from sagehand.study.dataset.operator import Lines

    named = [f"--{name}" for name, v in (("camera", camera), ("bag", bag), ("frames", frames)) if v is not None]
    if len(named) != 1:
        told = f"{' and '.join(named)} were named" if named else "no source was named"
        raise InputError(told, hint="name one of --camera, --bag and --frames")
    if bag is None and any(topics.values()):
        raise InputError("topics are a bag's", hint="leave them out, or name a bag with --bag")
    if bag is not None:
        return BagSource(bag, Topics(**topics), events)
    if frames is not None:
        lines = Lines(sys.stdin) if events is None else None
        return FramesSource(frames, events=events, lines=lines, refuse=announce)
    if events is not None:
        raise InputError("--events is for a bag or frames", hint="what a camera sees is told in lines on stdin")
    which: int | str = int(camera) if camera is not None and camera.isascii() and camera.isdigit() else str(camera)
    return CameraSource(which, Lines(sys.stdin), interval=every, refuse=announce)


def _recorded(
    out: Path, source: Source, session: Session, library: ActionLibrary | None, choice: Choice, complete: bool
) -> RecordReport:
    """Record, and leave by Ctrl-C with a line that says how to go on."""
    from sagehand.study.dataset.capture import record_study

    tell = announce if source.live else None
    try:
        return record_study(out, source, session, library=library, choice=choice, complete=complete, tell=tell)
    except KeyboardInterrupt:
        announce("stopped; what was taken is kept. Run the same command again to go on, or with --finish to end it")
        raise typer.Exit(130) from None


def _text(report: RecordReport) -> str:
    left = "nothing remains" if report.complete else "what remains is not known"
    lines = [
        f"run {report.run} of {report.device}: {report.images} pictures ({report.depth_images} with depth) in {report.folder}",
        f"done: {', '.join(report.actions) or 'nothing'}; {left}",
    ]
    if report.left_out:
        lines.append("not taken: " + "; ".join(f"{count} {why}" for why, count in report.left_out.items()))
    if report.steps:
        rows: list[list[Any]] = [[step, count] for step, count in report.steps.items()]
        lines += ["", table(rows, ["step", "pictures"])]
    return "\n".join(lines)
