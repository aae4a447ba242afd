"""Stopping a training by a signal, so that its state is kept."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Turn the first Ctrl-C or SIGTERM into a request to stop after the epoch: the `should_stop` of `fit`.

    It is in force where it is entered by `with`. A second signal ends the process at once, as always.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        return self.number is not None

    @property
    def exit_code(self) -> int:
        """What a shell expects of a process that a signal ended: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + (self.number or 0)

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():  # no other may set handlers
            for number in SIGNALS:
                if signal.getsignal(number) != signal.SIG_IGN:  # whoever started us wants it ignored
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        self._restore()
        with suppress(OSError):  # a handler may come amidst a print, so it does not print
            os.write(2, b"\nstopping after this epoch; once more to stop at once\n")

    def _restore(self) -> None:
        while self._before:
            signal.signal(*self._before.popitem())
