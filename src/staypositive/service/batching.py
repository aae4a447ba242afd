"""Queues before the model: one thread each, so that what waits is counted and can be answered together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from starlette.exceptions import HTTPException

from staypositive.service.limits import DEADLINE, Limits
from staypositive.service.query_service import QueryService, Question, Record

T = TypeVar("T")


class WorkQueue:
    """One worker thread and a bounded queue before it."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.limits, self.waiting = limits, 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"staypositive-{name}")

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Do some work in the queue's thread; a request that is given up while it waits is never begun."""
        self._require_room(self.waiting)
        self.waiting += 1
        context = copy_context()
        context.run(DEADLINE.set, time.monotonic() + self.limits.seconds)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, context.run, work, *arguments)
        finally:
            self.waiting -= 1

    def _require_room(self, waiting: int) -> None:
        if waiting >= self.limits.waiting:
            raise HTTPException(503, "too many requests wait; try again", headers={"retry-after": "1"})

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class BatchQueue(WorkQueue):
    """A queue whose waiting questions are answered together: the busier it is, the larger the matrix product."""

    def __init__(self, service: QueryService, limits: Limits) -> None:
        super().__init__("questions", limits)
        self.service, self.batches, self.answered = service, 0, 0
        self._questions: list[tuple[Question, asyncio.Future[list[Record]]]] = []
        self._drain: asyncio.Task[None] | None = None

    async def ask(self, question: Question) -> list[Record]:
        """Answer one question, with all others that wait."""
        self._require_room(len(self._questions) + self.waiting)
        mine: asyncio.Future[list[Record]] = asyncio.get_running_loop().create_future()
        self._questions.append((question, mine))
        if self._drain is None or self._drain.done():
            self._drain = asyncio.create_task(self._answer_waiting())
        return await mine

    async def _answer_waiting(self) -> None:
        while self._questions:
            taken = [(question, future) for question, future in self._questions if not future.done()]
            self._questions = []
            try:
                answers: list[Any] = await self.run(self.service.answer_all, [question for question, _ in taken])
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
