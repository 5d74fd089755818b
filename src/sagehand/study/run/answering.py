"""The items of one unit, put to its method by several threads, each record written as soon as it is there."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace

from sagehand.errors import BadVector, JudgeError, MissingExtra, NeedsVlm, SagehandError, SettingsError, StoreError
from sagehand.interrupt import held_interrupt
from sagehand.study.dataset.sample import Sample
from sagehand.study.methods.base import Answer, Method
from sagehand.study.run.record import Record, record_of
from sagehand.study.run.store import RunFiles
from sagehand.study.run.units import Unit

__all__ = ["Silence", "answer_all", "answer_one"]

_LOOK = 0.1  # [s] between two looks at whether Ctrl-C was pressed
_IN_A_ROW = 10  # so many items without an answer are not the items' fault
_NOT_THE_ITEMS = ("Unreachable", "Refused")


class Silence:
    """How often in a row an arm's model gave no answer, for a reason that is none of the items': nobody there, or refused.

    Attributes:
        count: Items in a row.
        reason: The last one's.
    """

    def __init__(self) -> None:
        self.count, self.reason = 0, ""

    @property
    def long(self) -> bool:
        """No other item need be asked."""
        return self.count >= _IN_A_ROW

    def hear(self, record: Record) -> None:
        """Take note of an item's record."""
        self.count = self.count + 1 if record.failure in _NOT_THE_ITEMS else 0
        self.reason = f"{record.failure}: {record.answer['reason']}"


def answer_all(
    unit: Unit,
    method: Method,
    items: Iterable[tuple[str, Sample]],
    files: RunFiles,
    *,
    jobs: int = 1,
    silence: Silence | None = None,
    on_record: Callable[[Record], None] | None = None,
) -> int:
    """Answer items and write their records.

    Args:
        unit: The unit that they belong to.
        method: Its method.
        items: (subset, sample) of each.
        files: Where the records go.
        jobs: How many are asked at once.
        silence: Of the arm; where it is long, no other item is asked.
        on_record: Called with each record when it is on disk, by the calling thread.

    Returns:
        How many were not asked.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; what was under way was answered and written first. A second one does not wait.
        Exception: What the method raised that is no error of the sample, with a note of the item; likewise.
    """
    base = {sample.key: sample for sample in unit.train}
    waiting = deque(items)
    running: set[Future[Record]] = set()
    silence = silence or Silence()

    def ask(subset: str, sample: Sample) -> Record:
        record = answer_one(unit, method, subset, sample, base)
        files.append(record)
        return record

    def collect(done: Iterable[Future[Record]]) -> None:
        for future in done:
            running.discard(future)
            if not future.cancelled():
                record = future.result()
                silence.hear(record)
                if on_record:
                    on_record(record)

    pool = ThreadPoolExecutor(jobs, "study")
    with held_interrupt() as asked:
        try:
            while (waiting or running) and not asked.is_set():
                # an answer that is still under way may end the row
                while waiting and len(running) < jobs and not silence.long:
                    running.add(pool.submit(ask, *waiting.popleft()))
                if not running:
                    break
                collect(wait(running, _LOOK, FIRST_COMPLETED).done)
            collect(wait(running).done)
        except BaseException as error:
            # a second Ctrl-C: whoever presses it does not want to wait for answers
            pool.shutdown(wait=not isinstance(error, KeyboardInterrupt), cancel_futures=True)
            raise
        pool.shutdown()
    if asked.is_set():
        raise KeyboardInterrupt
    return len(waiting)


def answer_one(unit: Unit, method: Method, subset: str, sample: Sample, base: dict[str, Sample]) -> Record:
    """Answer one sample and hold the answer against its label.

    A model that gave no answer is a failure, a sample that cannot be answered an error; both are records.

    Args:
        unit: The unit.
        method: Its method.
        subset: "query", "train", "validation" or "test".
        sample: The sample.
        base: The base's samples by key.
    """
    started = time.perf_counter()
    error = None
    try:
        try:
            answer = method.answer(sample)
        except (MissingExtra, NeedsVlm, SettingsError):
            raise  # of no use to any sample
        except JudgeError as failed:
            answer = Answer(reason=str(failed), failure=type(failed).__name__)
        except SagehandError as failed:
            if isinstance(failed, StoreError) and not isinstance(failed, BadVector):
                raise
            error = f"{type(failed).__name__}: {failed}"
            answer = Answer(reason=str(failed))
        spent = time.perf_counter() - started
        record = record_of(
            sample,
            answer,
            arm=unit.arm.name,
            seed=unit.seed,
            fold=unit.fold,
            subset=subset,
            seconds=spent,
            base=base,
        )
    except Exception as broken:
        broken.add_note(f"while {unit.name} answered {sample.key!r}")
        raise
    return record if error is None else replace(record, error=error)
