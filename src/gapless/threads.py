"""One thread for small matrix products.

BLAS splits all but the smallest products over threads. Networks here have thousands of products of some hundred rows:
on a busy machine threads wait for each other at each of them, and a fit takes several times as long as with one thread
(bench/threads.py). One thread also adds the numbers of a product in the same order however many cores a machine has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute matrix products in one thread, inside the `with` block or the decorated function.

    Setting it takes about a millisecond: enter it once for a fit or a sample, not for each step. The number of threads
    belongs to the whole process. If several threads of Python are inside, it lasts until the first of them leaves.

    >>> from threadpoolctl import threadpool_info
    >>> with one_thread():
    ...     {library["num_threads"] for library in threadpool_info()}
    {1}
    """
    with threadpool_limits(1):
        yield
