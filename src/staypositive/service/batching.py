"""Lanes to the model: one thread each, so that what waits is counted and can be answered together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from staypositive.service.limits import Limits
from staypositive.service.query_service import Desk, Job, Record

T = TypeVar("T")


class BusyError(Exception):
    """More requests wait than may."""


class OutOfTimeError(Exception):
    """A request's time is over; raised inside its own work, between two pieces of it."""


class Lane:
    """One worker thread and a bounded queue before it."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.limits, self.waiting = limits, 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"staypositive-{name}")

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Do some work in the lane's thread; a request that is given up while it waits is never begun."""
        if self.waiting >= self.limits.waiting:
            raise BusyError
        self.waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)
        finally:
            self.waiting -= 1

    def deadline(self) -> Callable[[int], None]:
        """Return a progress callback that stops work whose time is over."""
        end = time.monotonic() + self.limits.seconds

        def tick(_: int) -> None:
            if time.monotonic() > end:
                raise OutOfTimeError

        return tick

    def close(self) -> None:
        """Let the thread end."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class QuestionLane(Lane):
    """A lane whose waiting questions are answered together: the busier it is, the larger the matrix product."""

    def __init__(self, desk: Desk, limits: Limits) -> None:
        super().__init__("questions", limits)
        self.desk, self.batches, self.answered = desk, 0, 0
        self._jobs: list[tuple[Job, asyncio.Future[list[Record]]]] = []
        self._drain: asyncio.Task[None] | None = None

    async def ask(self, job: Job) -> list[Record]:
        """Answer one question, with all others that wait."""
        if len(self._jobs) + self.waiting >= self.limits.waiting:
            raise BusyError
        mine: asyncio.Future[list[Record]] = asyncio.get_running_loop().create_future()
        self._jobs.append((job, mine))
        if self._drain is None or self._drain.done():
            self._drain = asyncio.create_task(self._answer_waiting())
        return await mine

    async def _answer_waiting(self) -> None:
        while self._jobs:
            taken = [(job, future) for job, future in self._jobs if not future.done()]
            self._jobs = []
            try:
                answers: list[Any] = await self.run(self.desk.answer_all, [job for job, _ in taken])
            except Exception as error:  # whatever it is, those who wait must hear of it
                answers = [error] * len(taken)
            self.batches, self.answered = self.batches + 1, self.answered + len(taken)
            for (_, future), answer in zip(taken, answers, strict=True):
                if future.done():
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
