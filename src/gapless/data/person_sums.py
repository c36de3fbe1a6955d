r"""Sums in which each person weighs the same, however many rows of it are kept.

Row i of a person p adds :math:`f(x_i)` to a vector of sums, at most a unit u in L1. The person adds the sum over its
kept rows divided by a number of rows :math:`k_p`, on a grid that is G times as fine, rounded towards 0:

.. math:: t_p = \operatorname{trunc}\Bigl(\tfrac{G}{k_p} \sum_{i \in p} f(x_i)\Bigr), \qquad
          \lVert t_p \rVert_1 \le \tfrac{G}{k_p} \sum_{i \in p} \lVert f(x_i) \rVert_1 \le G u

:math:`k_p` is the number of kept rows that add anything, or of all kept rows. So a person moves the sum by at most
:math:`G u`, whatever the number of rows that are kept of it. Proved in docs/proofs/persons.md.
tests/property/test_person_sums.py tests it.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from gapless.data.checks import check_private
from gapless.data.engines.memory import Engine, KnowsPersons
from gapless.data.private_table import PrivateTable
from gapless.data.row_contribution import RowContribution
from gapless.errors import Argument, Call, EngineError, Hint, SchemaError
from gapless.privacy.budget import Persons
from gapless.privacy.private import L1, Private
from gapless.text import plural
from gapless.types import Integers, whole

FINEST = 720_720  # steps of a person's part of a sum: a multiple of 1 to 16, so that most shares of rows are exact
MOST_CLASSES = 1000  # of persons, by their number of rows
MOST_SUMS = 1 << 22  # that are released together


def check_knows_persons(table: PrivateTable) -> None:
    """Refuse a table whose rows are not known to be of persons, before any charge."""
    check_private(table, "a question per person")
    if not isinstance(table.protect, Persons):
        protect = Argument("protect", Call("Persons", Argument("id", "patient_id"), Argument("at_most", 3)))
        raise SchemaError(
            "a question per person needs the id of persons, but this table was read without one",
            hint=Hint("read the table with ", protect) | Hint("ask per row"),
        )
    if not issubclass(table._engine, KnowsPersons):
        raise EngineError(
            f"a question per person needs rows of a file or frame, but the engine is {table._engine.__name__.lower()}",
            hint=Hint("read the same rows from a file") | Hint("ask per row"),
        )


def steps_of_person(contribution: RowContribution) -> int:
    """G: the steps of the grid per step of a row's contribution. A function of public facts."""
    return max(1, FINEST // contribution.unit)


def person_sum_distance(contribution: RowContribution) -> L1:
    """The L1 sensitivity of `person_sum`: a unit on the finer grid, whatever the number of rows of a person."""
    return L1(contribution.unit * steps_of_person(contribution))


def check_classes(contribution: RowContribution, classes: int) -> None:
    """Refuse a number of classes of persons that is out of range, or too many sums. All of it is public."""
    classes = whole("classes", classes, error=SchemaError, least=1, most=MOST_CLASSES)
    if (sums := contribution.width * classes) > MOST_SUMS:
        raise SchemaError(
            f"a question may have at most {MOST_SUMS:,} sums, but {plural(contribution.groups, 'group')} in "
            f"{plural(classes, 'class', 'classes')} of persons have {sums:,}",
            hint=Hint("name fewer columns to group by")
            | Hint("pass the answer to ", Call("gapless.query.RowsPerPerson", 20), " as ", Argument("all_rows")),
        )


def person_sum(
    table: PrivateTable, contribution: RowContribution, *, classes: int | None = None
) -> Private[Integers, L1]:
    """The sum over persons of the mean of what their rows add, in steps of 1/`steps_of_person`.

    Rows that add nothing are no part of the mean. With `classes` they are, and there is a sum for each class of
    persons, within each group: those with 1, 2, …, `classes` or more rows before any was left out.

    Distance: `person_sum_distance`. `reads`: every row.
    """
    check_knows_persons(table)
    if classes is not None:
        check_classes(contribution, classes)
    places = table.schema.positions(contribution.columns)
    observed = {name: table.schema[name].size for name in contribution.needs}
    steps, at_most = steps_of_person(contribution), table.protect.at_most

    def total(engine: Engine) -> Integers:
        known = cast("KnowsPersons", engine)
        persons, groups = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        added = [np.zeros((0, contribution.components), dtype=np.int64)]
        for batch in known.person_batches(places or (0,)):  # a column gives the number of rows
            columns = dict(zip(contribution.columns or ("",), batch.columns, strict=True))
            group, parts = contribution.evaluate(columns, observed)
            counted = parts.any(axis=1)
            persons.append(batch.persons[counted].astype(np.int64))
            groups.append(group[counted])
            added.append(parts[counted])
        of, cells = np.concatenate(persons), np.concatenate(groups)
        if classes is None:
            return _sum_of_means(of, cells, np.concatenate(added), np.bincount(of), contribution.groups, steps)
        rows_of = known.rows_of_persons()
        cells = cells * classes + np.minimum(rows_of, classes)[of] - 1
        kept = np.minimum(rows_of, at_most)
        return _sum_of_means(of, cells, np.concatenate(added), kept, contribution.groups * classes, steps)

    return table._seal(total, distance=person_sum_distance(contribution), reads=None)


def _sum_of_means(
    persons: NDArray[np.int64], cells: NDArray[np.int64], added: Integers, rows: Integers, width: int, steps: int
) -> Integers:
    """Sum over persons, given the person and the cell of each row, what it adds, and the divisor of each person."""
    found, place = np.unique(persons * width + cells, return_inverse=True)
    sums = np.zeros((len(found), added.shape[1]), dtype=np.int64)
    np.add.at(sums, place, added)
    means = steps * np.abs(sums) // rows[found // width][:, None] * np.sign(sums)
    total = np.zeros((width, added.shape[1]), dtype=np.int64)
    np.add.at(total, found % width, means)
    return total.ravel()


def rows_per_person(table: PrivateTable, most: int) -> Private[Integers, L1]:
    """The number of persons with 1, 2, …, `most` or more rows, before rows are left out by a limit or a condition.

    Distance: a person is in one cell, so it changes the counts by 1. `reads`: every row.
    """
    check_knows_persons(table)
    most = whole("most", most, error=SchemaError, least=1, most=MOST_CLASSES)

    def count(engine: Engine) -> Integers:
        return np.bincount(_capped(cast("KnowsPersons", engine).rows_of_persons(), most), minlength=most + 1)[1:]

    return table._seal(count, distance=L1(1), reads=None)


def _capped(rows_of: Integers, most: int) -> Integers:
    """The cell of each person: its number of rows, at most `most`."""
    return np.minimum(rows_of, most)
