"""One thread for small matrix products.

BLAS splits all but the smallest products over threads. Networks here have thousands of products of some hundred rows:
on a busy machine threads wait for each other at each of them, and a fit takes several times as long as with one thread
(bench/threads.py). One thread also adds the numbers of a product in the same order however many cores a machine has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

from threadpoolctl import threadpool_limits

_one_at_a_time = RLock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute matrix products in one thread, inside the `with` block or the decorated function.

    Setting it takes about a millisecond: enter it once for a fit or a sample, not for each step. The number of threads
    belongs to the whole process, so a second thread of Python waits until the first has left: sums over private rows
    rely on it (docs/proofs/private_training.md, section 5).

    >>> from threadpoolctl import threadpool_info
    >>> with one_thread():
    ...     {library["num_threads"] for library in threadpool_info()}
    {1}
    """
    with _one_at_a_time, threadpool_limits(1):
        yield
