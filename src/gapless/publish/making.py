"""A release in one call: read, fit, keep the model, sample, write the folder; and the same for a model alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from hashlib import sha256
from operator import or_
from pathlib import Path
from typing import Any

from gapless.data import PrivateTable
from gapless.data.io.reading import is_file
from gapless.data.io.source import check_there
from gapless.data.private_table import ledger_beside
from gapless.errors import Argument, Call, Hint, ModelError, ReadError
from gapless.files import check_writable, free_name
from gapless.missing import Extended, Missing
from gapless.privacy import Budget, Guarantee, Loss, Rows
from gapless.privacy.budget import check_budget, check_percent
from gapless.privacy.journal import JournalFile, held, recording
from gapless.privacy.ledger import Ledger, check_promised
from gapless.privacy.ledger_file import seal_of
from gapless.publish.folder import is_begun, keep_model, kept_model, open_folder, write_folder
from gapless.publish.opening import Balance, Tell, open_table
from gapless.schema import Schema
from gapless.synth import AIM, METHODS
from gapless.synth.copies import COPY
from gapless.synth.fitted import PART_ROWS, FittedModel, Gaps, Progress, seed_or_new
from gapless.synth.fitting import Synthesizer, check_declared
from gapless.text import nearest
from gapless.types import whole


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A model that was fitted and saved.

    Attributes:
        path: the model file.
        model: what it holds.
        guarantee: what is promised for all that the ledger has recorded.
        balance: how the table's account stands, and where its ledger lies.
    """

    path: Path
    model: FittedModel
    guarantee: Guarantee
    balance: Balance


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A finished release folder.

    Attributes:
        folder: where it lies.
        files: the names of all files in it.
        rows: how many synthetic rows there are.
        taken_up: whether it had been begun before, so that nothing was spent this time.
        model: from which more rows can be sampled, for free.
        guarantee: what is promised for all that the ledger has recorded.
        balance: how the table's account stands, and where its ledger lies.
    """

    folder: Path
    files: tuple[str, ...]
    rows: int
    taken_up: bool
    model: FittedModel
    guarantee: Guarantee
    balance: Balance

    def __str__(self) -> str:
        return "\n".join(
            [
                str(self.guarantee),
                self.balance.scope,
                f"\n{self.folder}/",
                *(f"  {name}" for name in self.files),
                f"\n{self.balance}",
            ]
        )


def make_release(
    data: Any,
    schema: Schema,
    folder: str | Path,
    *,
    protect: Rows,
    budget: Budget | None = None,
    ledger: str | Path | None = None,
    percent: float | None = None,
    method: str = "auto",
    missing: Missing | None = None,
    always: Sequence[Sequence[str]] = (),
    gaps: Gaps = "filled",
    rows: int | None = None,
    copies: int | None = None,
    seed: int | None = None,
    expected_rows: int | None = None,
    encoding: str | None = None,
    engine: str | None = None,
    query: str | None = None,
    progress: Progress | None = None,
    tell: Tell | None = None,
) -> Release:
    """Make a release folder from a sensitive table: synthetic rows, statement, report, dictionary, model, manifest.

    What is wrong is told before anything is spent. What is released on the way is kept, and the model as soon as it is
    paid for: if anything stops the release, the same call resumes it and pays for nothing again.

    Args:
        data: a path (CSV, TSV, gzip, Parquet), or a pandas, polars or Arrow table; a database or a Spark DataFrame.
        schema: what is publicly known of it.
        folder: a folder of its own, made if there is none; a finished release is never touched.
        protect: the protected unit, `Rows(1)` or the most rows that one person has.
        budget: the promise; needed for a new ledger, and must agree with an existing one.
        ledger: the file that remembers what was spent on this table; by default it lies beside the data.
        percent: the share of the whole budget to spend; by default all that is left.
        method: the synthesizer by its name: auto, mixture, aim, mst, privbayes, independent, kamino, or a network.
        missing: what to do about gaps; by default what the method does, `Extended()` for all but misgan.
        always: sets of columns that are measured for certain, for estimates with intervals; aim does, also for auto.
        gaps: "filled" for complete rows, "as observed" to draw the missing states as well.
        rows: how many synthetic rows; by default the noisy number of rows.
        copies: how many copies for inference to add, with a guide to pool them; by default none.
        seed: repeat a sample; noise cannot be seeded.
        expected_rows: about how many rows there are, if public, for `method="auto"`; by default the schema's.
        encoding: of a text file, by default the schema's, else UTF-8.
        engine: where the rows are counted, as `read` takes it.
        query: what is read from a database, as `read` takes it.
        progress: called with the phase, how much of it is done, of how much.
        tell: called with sentences for the holder: what is weak about the promise, before it is spent; that a release
            was taken up; that noise dominates.
    """
    folder = Path(folder)
    synthesizer = _synthesizer(method, missing, expected_rows, always, schema)
    _check_gaps(gaps, synthesizer, schema)
    rows = None if rows is None else whole("rows", rows, error=ModelError)
    if copies is not None:
        _check_copies(copies, synthesizer, schema)
    seed = seed_or_new(seed)
    place = _ledger_of(data, ledger, budget, percent, engine)
    if budget is not None:
        check_declared(synthesizer, budget)  # before a ledger is made, whose δ is for good
    phase, say = progress or (lambda *_: None), tell or (lambda _: None)
    with open_folder(folder, place) as journal:
        if percent is None and place.exists() and not is_begun(folder):
            known = Ledger.open(place)
            if budget in (None, known.budget):
                known.share_as_told(percent=None)  # a budget that is spent is told before the table is read
        phase("reading", 0, 1)
        source = {"encoding": encoding, "engine": engine, "query": query}
        people = open_table(data, schema, protect=protect, budget=budget, ledger=place, tell=tell, **source)
        kept = kept_model(folder, schema, people.ledger)
        if kept is None:
            with _run(journal, people, synthesizer, percent, say, query=query) as spend:
                model = synthesizer.fit(people, spend=spend, progress=progress)
                keep_model(folder, model, people.ledger)
        else:
            model = kept
            begun = _begun_with(folder, model, method, missing)
            say(f"{begun}: it is finished with the model that was paid for. Nothing is spent.")
        phase("sampling", 0, 1)
        many = max(0, round(model.total)) if rows is None else rows
        sample = model.sample(min(many, PART_ROWS), seed=seed, gaps=gaps)  # all rows, or the first of them
        write = None if many == sample.rows else partial(model.write_sample, rows=many, seed=seed, gaps=gaps)
        for caution in filter(None, (model.lost_in_noise(), model.pinned())):
            say(f"Warning: {caution}")
        phase("writing", 0, 1)
        tables = None if copies is None else model.copies(copies, seed=seed, progress=progress)
        # The journal is held until all is written, so that no other process writes into the same folder.
        files = write_folder(
            folder, model, sample, people.ledger, rows=many, write=write, copies=tables, journal=journal
        )
    return Release(
        folder=folder,
        files=files,
        rows=many,
        taken_up=kept is not None,
        model=model,
        guarantee=people.ledger.guarantee(),
        balance=Balance.of(people.ledger, place),
    )


def make_model(
    data: Any,
    schema: Schema,
    path: str | Path,
    *,
    protect: Rows,
    budget: Budget | None = None,
    ledger: str | Path | None = None,
    percent: float | None = None,
    method: str = "auto",
    missing: Missing | None = None,
    always: Sequence[Sequence[str]] = (),
    expected_rows: int | None = None,
    encoding: str | None = None,
    engine: str | None = None,
    query: str | None = None,
    progress: Progress | None = None,
    tell: Tell | None = None,
) -> ModelFile:
    """Fit a model to a sensitive table and save it; arguments as of `make_release`.

    No file is replaced. If one has appeared at `path` meanwhile, the model, which was paid for, gets a name beside it.
    While one process makes the model, another one that is to make it waits, and is then refused: it is there.
    """
    synthesizer = _synthesizer(method, missing, expected_rows, always, schema)
    place = _ledger_of(data, ledger, budget, percent, engine)
    if budget is not None:
        check_declared(synthesizer, budget)  # before a ledger is made, whose δ is for good
    check_writable(Path(path), unlike=(place, seal_of(place)), new=True)
    with held(f"{path}.journal") as journal:
        check_writable(Path(path), new=True)  # again: who had the journal may have made the model
        if progress is not None:
            progress("reading", 0, 1)
        source = {"encoding": encoding, "engine": engine, "query": query}
        people = open_table(data, schema, protect=protect, budget=budget, ledger=place, tell=tell, **source)
        with _run(journal, people, synthesizer, percent, tell or (lambda _: None), query=query) as spend:
            model = synthesizer.fit(people, spend=spend, progress=progress)
            saved = free_name(Path(path))
            model.save(saved)
        journal.discard()
    return ModelFile(
        path=saved, model=model, guarantee=people.ledger.guarantee(), balance=Balance.of(people.ledger, place)
    )


@contextmanager
def _run(
    journal: JournalFile,
    people: PrivateTable,
    synthesizer: Synthesizer,
    percent: float | None,
    say: Tell,
    *,
    query: str | None,
) -> Iterator[Loss]:
    """What a fit may spend. What it releases is kept in the journal: a fit that was stopped resumes from there."""
    call = {
        "synthesizer": repr(synthesizer),
        "percent": percent,
        "schema": people.schema.to_toml(),
        "query": None if query is None else sha256(query.encode()).hexdigest(),  # itself is the holder's business
    }
    with recording(journal, people.ledger, call=call) as run:
        if run.begun:
            say(
                f"{journal.path} holds what an earlier call has released: this one resumes from there, and does not "
                "pay for these answers again."
            )
        yield people.ledger.share_as_told(percent=percent) if run.spend is None else run.spend


def _synthesizer(
    method: str,
    missing: Missing | None,
    expected_rows: int | None,
    always: Sequence[Sequence[str]],
    schema: Schema,
) -> Synthesizer:
    """The method by its name; tables that are measured for certain choose AIM."""
    if method not in METHODS:
        raise ModelError(f"no method {method!r}", hint=nearest(str(method), METHODS))
    more: dict[str, Any] = {} if missing is None else {"missing": missing}
    if always:
        if method not in ("auto", AIM.name):
            raise ModelError(
                f"{method} measures no tables for certain",
                hint=Hint("pass ", Argument("method", "aim")) | Hint("leave ", Argument("always"), " out"),
            )
        synthesizer = AIM(always=[tuple(names) for names in always], **more)
        synthesizer.certain(schema)
        return synthesizer
    return METHODS[method](**more | ({"expected_rows": expected_rows} if method == "auto" else {}))


def _check_gaps(gaps: Gaps, synthesizer: Synthesizer, schema: Schema) -> None:
    """Refuse to draw gaps that are not measured; where no column may be missing there are none to draw."""
    if gaps not in ("filled", "as observed"):
        raise ModelError(
            f"no gaps called {gaps!r}",
            hint=Hint("pass ", Argument("gaps", "filled")) | Hint("pass ", Argument("gaps", "as observed")),
        )
    measured = synthesizer.counts_gaps or not any(column.gaps for column in schema.columns)
    if gaps == "as observed" and not measured:
        measuring = [Argument("missing", Call(kind.__name__)) for kind in synthesizer.learns_gaps or (Extended,)]
        choices = [Hint("pass ", choice) for choice in (*measuring, Argument("gaps", "filled"))]
        raise ModelError("this treatment does not measure the gaps", hint=reduce(or_, choices))


def _check_copies(copies: int, synthesizer: Synthesizer, schema: Schema) -> None:
    whole("copies", copies, error=ModelError, least=2)
    if COPY in schema.names:
        raise ModelError(
            f"the schema has a column {COPY!r} of its own",
            hint=Hint("rename it") | Hint("leave ", Argument("copies"), " out"),
        )
    if not synthesizer.keeps_tables:
        raise ModelError(
            f"{synthesizer.name} is not learned from tables: there are no copies of it",
            hint=Hint("pass ", Argument("method", "mixture"), "; aim, mst, privbayes and independent have copies too"),
        )
    if any(column.gaps for column in schema.columns) and not synthesizer.counts_gaps:
        raise ModelError(
            "this treatment does not measure the gaps: no estimate from copies would have an interval",
            hint=Hint("pass ", Argument("missing", Call("Extended"))) | Hint("leave ", Argument("copies"), " out"),
        )


def _ledger_of(
    data: Any, ledger: str | Path | None, budget: Budget | None, percent: float | None, engine: str | None
) -> Path:
    """Where the ledger lies, after a look at what does not need the data: a slip is told before anything is made."""
    if percent is not None:
        check_percent(percent)
    check_budget(budget)
    if is_file(data, engine):
        check_there(Path(data))
    place = ledger_beside(data) if ledger is None else Path(ledger)
    check_promised(place, budget)
    return place


def _begun_with(folder: Path, model: FittedModel, method: str, missing: Missing | None) -> str:
    """How a release was begun, if it can be finished as asked: another model would have to be paid for anew."""
    treatment = str(model.facts.settings["missing"])
    begun = f"{folder} was begun with {model.method}, {treatment}"
    if method not in ("auto", model.method) or (missing is not None and repr(missing) != treatment):
        raise ReadError(
            begun,
            hint=Hint("pass the same ", Argument("method"), " and ", Argument("missing")) | Hint("leave both out"),
        )
    return begun
