"""Record a data set while a cell runs: from a camera, a bag, or a folder that pictures appear in.

The result is a folder as the studies read it (and ``cases import`` takes it): pictures, depth images where there are any,
and labels that follow from what was done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sagehand.action.library import ActionLibrary
from sagehand.errors import InputError, PictureError
from sagehand.study.dataset.events import NANO, Done, End, Event, Frame, Moved, Snap, Source
from sagehand.study.dataset.recording import Recording
from sagehand.study.dataset.session import Session, check_session, objection

__all__ = ["Choice", "RecordReport", "finish_recording", "record_study"]


@dataclass(frozen=True)
class Choice:
    """Which of the pictures that nobody asked for are taken.

    Attributes:
        every: Least time between two of them [s]; None for what is usual with the source.
        per_step: Most of one step in a run; None for no limit.
        settle: No picture in this time after an action was done [s].
        lead: No picture in this time before an action was done [s]: it is being done. Only where the times of actions
            are known beforehand (a bag, a file of events).
    """

    every: float | None = None
    per_step: int | None = None
    settle: float = 0.0
    lead: float = 0.0

    def __post_init__(self) -> None:
        for name in ("every", "settle", "lead"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1e6:
                raise InputError(f"{name} is {value}; it must be 0 or more [s]")
        if self.per_step is not None and self.per_step < 1:
            raise InputError(f"per_step is {self.per_step}; it must be at least 1")


@dataclass(frozen=True)
class RecordReport:
    """What was recorded."""

    folder: str
    """The folder."""
    family: str
    """The device's family."""
    device: str
    """The device."""
    run: int
    """Number of the run, from 1 for each device."""
    images: int
    """Pictures of the run."""
    depth_images: int
    """Those with a depth image."""
    steps: dict[int, int]
    """Step → its pictures in this run."""
    actions: tuple[str, ...]
    """What was done, oldest first."""
    complete: bool
    """Whether nothing remained; if not, the labels do not say what came after the last action."""
    resumed: bool
    """Whether a recording that had broken off was gone on with."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Why pictures were not taken → how many."""
    flagged: tuple[str, ...] = ()
    """What does not fit: labels that the action library speaks against, pictures or depth images that cannot be used."""

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def record_study(
    out: str | Path,
    source: Source,
    session: Session,
    *,
    library: ActionLibrary | None = None,
    choice: Choice | None = None,
    complete: bool = False,
    tell: Callable[[str], None] | None = None,
) -> RecordReport:
    """Record one run of one device.

    A recording that was stopped is gone on with by the same call; of a bag or a folder only what is new is taken.

    Args:
        out: The data set's folder: new, or holding earlier runs.
        source: Where pictures and events come from; it is closed at the end.
        session: The device, and what is the same for all its pictures.
        library: The cell's actions. A name that it does not have is refused. An action that its preconditions speak against
            is refused where somebody is there to be asked, and else recorded and flagged.
        choice: Which pictures are taken.
        complete: Nothing remains to be done after the last action, though no ``end`` says so.
        tell: Called with a line for the operator: what was recorded, what was refused and why.

    Raises:
        InputError: The folder, a line or an event cannot be used.
        UnknownName: The library does not have a family or an action.
        KeyboardInterrupt: Ctrl-C; the recording stays open, and what was taken is kept.
    """
    run = _Run(source, library, choice or Choice(), tell or (lambda line: None))
    try:
        check_session(session, library)
        run.check_known(session)
        with Recording(Path(out), session, library) as recording:
            if recording.resumed:
                told = f"{len(recording.pictures)} pictures, {len(recording.history)} actions done"
                run.tell(f"going on with run {recording.run} of {session.device}: {told}")
            for event in source.events():
                if isinstance(event, End):
                    complete = True
                    break
                run.handle(event, recording)
            return run.report(recording, complete=complete)
    finally:
        source.close()


def finish_recording(out: str | Path, *, library: ActionLibrary | None = None, complete: bool = False) -> RecordReport:
    """End a recording that broke off, as it is.

    Args:
        out: The folder.
        library: The cell's actions, to hold the labels against.
        complete: Whether nothing remained to be done.

    Raises:
        InputError: No recording is open there.
    """
    with Recording(Path(out), None, library) as recording:
        return _Run(None, library, Choice(), lambda line: None).report(recording, complete=complete)


class _Run:
    """Takes events into a recording, and keeps count."""

    def __init__(
        self, source: Source | None, library: ActionLibrary | None, choice: Choice, tell: Callable[[str], None]
    ) -> None:
        self._source, self._library, self._choice, self.tell = source, library, choice, tell
        self._known = sorted(d.stamp for d in source.known() if d.stamp is not None) if source else []
        self._done_at: int | None = None
        self._left_out: Counter[str] = Counter()
        self._flagged: list[str] = []

    def check_known(self, session: Session) -> None:
        """Refuse what cannot be recorded before anything is written."""
        history = session.done
        for done in self._source.known() if self._source else ():
            why = self._objection(done, history, session.family)
            if why is not None and not done.sure:
                self._flagged.append(f"{done.where}: {done.action} {why}")
            history = (*history, done.action)

    def handle(self, event: Event, recording: Recording) -> None:
        """Take one event, unless it was taken before the recording was stopped."""
        if event.key is not None and event.key in recording.seen:
            if isinstance(event, Done):
                self._done_at = event.stamp
            return
        match event:
            case Moved(place=place):
                recording.move(place, event.stamp, event.key)
                self.tell(f"at {place}")
            case Done():
                self._do(event, recording)
            case Frame():
                self._take(event, recording)
            case Snap():
                raise InputError(f"{event.where}: no picture can be asked for here", hint="only a camera takes 'snap'")

    def report(self, recording: Recording, *, complete: bool) -> RecordReport:
        """End the run and say what it came to."""
        steps = Counter(int(row["step"]) for row in recording.pictures)
        depth = sum("depth_file_name" in row for row in recording.pictures)
        flagged = recording.finish(complete=complete)
        if not recording.pictures:
            flagged.append("no picture was taken")
        session = recording.session
        return RecordReport(
            folder=str(recording.folder),
            family=session.family,
            device=session.device,
            run=recording.run,
            images=len(recording.pictures),
            depth_images=depth,
            steps=dict(sorted(steps.items())),
            actions=recording.history,
            complete=complete,
            resumed=recording.resumed,
            left_out=dict(self._left_out),
            flagged=(*self._flagged, *flagged),
        )

    def _do(self, done: Done, recording: Recording) -> None:
        live = self._source is not None and self._source.live
        try:
            why = self._objection(done, recording.history, recording.session.family)
        except InputError as error:
            if not live:
                raise
            self.tell(f"not recorded: {error}")
            return
        if why is not None and live and not done.sure:
            self.tell(f"not recorded: {done.action} {why} (if it was done all the same, write: {done.action} !)")
            return
        recording.do(done)
        self._done_at = done.stamp
        self.tell(f"{done.action} done; step {recording.step}")

    def _objection(self, done: Done, history: Sequence[str], family: str) -> str | None:
        try:
            return objection(self._library, done, history, family)
        except InputError as error:
            raise InputError(f"{done.where}: {error.message}", hint=error.hint) from error

    def _take(self, frame: Frame, recording: Recording) -> None:
        why = None if frame.asked else self._unwanted(frame, recording)
        if why is not None:
            self._left_out[why] += 1
            return
        try:
            shot = frame.read()
        except PictureError as error:
            self._left_out["cannot be used"] += 1
            self._flagged.append(f"{frame.where}: {error}")
            self.tell(f"not taken: {error}")
            return
        self._flagged += [f"{frame.where}: {note}" for note in shot.notes]
        row = recording.take(shot, frame.stamp, frame.key)
        self.tell(f"{row['file_name']}: step {row['step']}")

    def _unwanted(self, frame: Frame, recording: Recording) -> str | None:
        choice = self._choice
        if frame.stamp is None:
            return self._enough(recording)
        every = choice.every if choice.every is not None else self._source.every if self._source else 0.0
        if recording.gone_on_after is not None and frame.stamp <= recording.gone_on_after:
            return "left out before the recording was stopped"
        last = recording.last_stamp
        if last is not None and frame.stamp - last < every * NANO:
            return f"less than {every:g} s after the one before"
        if self._done_at is not None and frame.stamp - self._done_at < choice.settle * NANO:
            return f"less than {choice.settle:g} s after an action"
        coming = next((stamp for stamp in self._known if stamp >= frame.stamp), None)
        if coming is not None and coming - frame.stamp < choice.lead * NANO:
            return f"less than {choice.lead:g} s before an action was done"
        return self._enough(recording)

    def _enough(self, recording: Recording) -> str | None:
        most = self._choice.per_step
        return f"{most} of its step were there" if most is not None and recording.taken_in_step >= most else None
