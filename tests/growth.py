"""How the time of some work grows with its size."""

import gc
import time

_FACTOR = 8
# Linear work takes 6 to 9 times as long, quadratic work up to 64 times.
_MOST = 12


def is_linear(work, make, size):
    """Return whether `work(make(k))` takes no longer than in proportion to k, from size to 8 size.

    At the larger size, quadratic work must take at least about as long as all linear work. Further
    measurements follow while the answer is no, so that a busy machine does not change it.
    """
    small, large = make(size), make(_FACTOR * size)
    shortest = min(_seconds(work, small) for _ in range(3))
    for _ in range(8):
        if _seconds(work, large) < _MOST * shortest:
            return True
        shortest = min(shortest, _seconds(work, small))
    return False


def _seconds(work, argument):
    gc.disable()  # it would visit all objects of other tests, too
    try:
        began = time.process_time()
        work(argument)
        return time.process_time() - began
    finally:
        gc.enable()
