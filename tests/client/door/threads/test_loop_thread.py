"""Calls of the loop's thread, interrupted by Ctrl-C wherever Python raises it."""

import asyncio
import dis
import sys
import threading
from types import CodeType, FrameType
from typing import Any

from magnetar.client.door.threads.loop_thread import LoopThread
from magnetar.client.door.threads.outcome import Outcome

# The instructions behind which Python looks for signals.
LOOKS = ("CALL", "RESUME", "JUMP_BACKWARD")


class Interrupting:
    """Raises KeyboardInterrupt at the n-th place where a signal could."""

    def __init__(self, number: int) -> None:
        # Python 3.12 tells of opcodes only if a frame asked for them before `settrace`.
        sys._getframe().f_trace_opcodes = True
        self.left = number
        self._names: dict[CodeType, dict[int, str]] = {}
        self._before: dict[FrameType, str] = {}

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        frame.f_trace_opcodes = True
        if event == "exception":
            self._before.pop(frame, None)
        elif event == "opcode":
            before = self._before.get(frame, "")
            self._before[frame] = self._name(frame.f_code, frame.f_lasti)
            if before.startswith(LOOKS):
                self.left -= 1
                if self.left < 0:
                    sys.settrace(None)
                    raise KeyboardInterrupt
        return self

    def _name(self, code: CodeType, at: int) -> str:
        if code not in self._names:
            self._names[code] = {one.offset: one.opname for one in dis.get_instructions(code)}
        return self._names[code].get(at, "")


async def work() -> int:
    await asyncio.sleep(0.001)
    return 5


def answers(loop: LoopThread) -> bool:
    """Whether the loop goes on, asked from a thread that need not come back."""
    said: Outcome[int] = Outcome()
    threading.Thread(target=lambda: said.set(None, loop.call(work())), daemon=True).start()
    return said._unset.acquire(timeout=30)


def test_wherever_a_call_is_interrupted_the_loop_goes_on() -> None:
    loop = LoopThread()
    before = sys.gettrace()
    number = 0
    while True:
        interrupting, coroutine = Interrupting(number), work()
        sys.settrace(interrupting)
        try:
            assert loop.call(coroutine) == 5
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        if interrupting.left >= 0:
            break
        assert answers(loop), f"after an interrupt at place {number}"
        coroutine.close()  # it may not have come to the call
        number += 1
    assert number > 5
    loop.stop()
