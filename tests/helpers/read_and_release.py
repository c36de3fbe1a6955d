"""A table read and published in one call, as most tests need it: all that is left is spent unless they say how much."""

import gapless as gl
from gapless.publish import save_model

SOURCE = ("protect", "budget", "ledger", "encoding", "engine", "query")


def read_and_release(data, schema, folder, **arguments):
    return _published(gl.release, data, schema, folder, arguments)


def read_and_save(data, schema, path, **arguments):
    return _published(save_model, data, schema, path, arguments)


def _published(publish, data, schema, path, arguments):
    source = {name: arguments.pop(name) for name in SOURCE if name in arguments}
    table = gl.read(data, schema, **source)
    return publish(table, path, **{"spend": table.ledger.left} | arguments)
