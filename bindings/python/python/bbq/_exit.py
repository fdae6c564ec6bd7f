"""Sees to it that a process does not end before its last messages are gone, for as long as `close_timeout` allows.

`atexit` does that, but not in the children of multiprocessing, which end without it and have finalizers of their own.
"""

import atexit
import os
import sys

from bbq._native import finish_all

# After everything else that multiprocessing finalizes: that may log, too.
_FINALIZER_PRIORITY = -1000

_watched_pid = 0
_ending_pid = 0


def watch() -> None:
    """Called for each sender that is started."""
    global _watched_pid
    if _watched_pid == os.getpid():
        return
    _watched_pid = os.getpid()
    # A process that has not loaded it is none of its children.
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, _finish, exitpriority=_FINALIZER_PRIORITY)


def is_ending() -> bool:
    """Whether this process ends: nobody would wait for what is sent from now on by a sender that is started now."""
    return _ending_pid == os.getpid()


def _finish() -> None:
    global _ending_pid
    _ending_pid = os.getpid()
    finish_all()


atexit.register(_finish)
