"""Flushes all senders before the process exits.

Children of multiprocessing do not run `atexit` handlers, but finalizers of multiprocessing.
"""

import atexit
import os
import sys

from bbq._native import finish_all

# After all other finalizers of multiprocessing, as they may log, too.
_FINALIZER_PRIORITY = -1000

_watched_pid = 0
_ending_pid = 0


def watch() -> None:
    """Called for each sender that is started."""
    global _watched_pid
    if _watched_pid == os.getpid():
        return
    _watched_pid = os.getpid()
    # A child of multiprocessing has loaded the module.
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, _finish, exitpriority=_FINALIZER_PRIORITY)


def is_ending() -> bool:
    """Whether this process is exiting: a sender that is started now would not be flushed."""
    return _ending_pid == os.getpid()


def _finish() -> None:
    global _ending_pid
    _ending_pid = os.getpid()
    finish_all()


atexit.register(_finish)
