"""A command that is stopped says what it has spent."""

import os
import signal

import pytest

from gapless.cli.stopping import Stopped, stop_message, stoppable, watch_ledger


def test_a_signal_stops_the_command_and_the_old_handler_comes_back(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Stopped) as stopped, stoppable():
        watch_ledger(tmp_path / "new.ledger")
        os.kill(os.getpid(), signal.SIGTERM)
    assert stopped.value.code == 143
    assert stop_message() == "Stopped. Nothing was spent."
    assert signal.getsignal(signal.SIGTERM) is before
