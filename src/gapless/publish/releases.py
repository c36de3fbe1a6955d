"""A release in one call: fit, save the model, sample, write the folder. And a model file in one call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import Any

from gapless.data import PrivateTable
from gapless.data.checks import check_private
from gapless.data.io.table_files import check_output
from gapless.errors import Argument, Call, Hint, ModelError, ReadError
from gapless.evaluate.usability import Usability, mostly_missing_sentence, usability
from gapless.files import check_writable, free_name
from gapless.missing import Extended, Missing
from gapless.privacy import Budget, Guarantee, Loss, Spend
from gapless.privacy.budget import percent_of
from gapless.privacy.journal import JournalFile, open_journal_file, record_in
from gapless.privacy.ledger import Ledger
from gapless.privacy.ledger_file import seal_of
from gapless.publish.balance import Balance, Notify, notify_cautions
from gapless.publish.folder import ALSO, is_begun, keep_model, kept_model, open_folder, write_folder
from gapless.schema import Schema
from gapless.synth import AIM, METHODS
from gapless.synth.auto import REASON
from gapless.synth.copies import COPY
from gapless.synth.fitted import PART_ROWS, FittedModel, Gaps, Progress, check_gaps, seed_or_new
from gapless.synth.fitting import Synthesizer, check_declared
from gapless.text import listing, nearest
from gapless.types import whole


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A model that was fitted and saved.

    Attributes:
        path: the model file.
        model: the fitted model.
        guarantee: the guarantee for all that the ledger has recorded.
        balance: what is spent and left, and the path of the ledger.
    """

    path: Path
    model: FittedModel
    guarantee: Guarantee
    balance: Balance


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A finished release folder.

    Attributes:
        folder: the path of the folder.
        files: the names of all files in it.
        rows: the number of synthetic rows.
        taken_up: whether an unfinished release was resumed, so that nothing was spent this time.
        model: the fitted model; more rows can be sampled from it, for free.
        usability: the verdict: what the rows are usable for, by the noise in them.
        guarantee: the guarantee for all that the ledger has recorded.
        balance: what is spent and left, and the path of the ledger.
    """

    folder: Path
    files: tuple[str, ...]
    rows: int
    taken_up: bool
    model: FittedModel
    usability: Usability
    guarantee: Guarantee
    balance: Balance

    def __str__(self) -> str:
        return "\n".join(
            [
                self._method_line(),
                str(self.guarantee),
                self.balance.scope,
                f"\n{self.folder}/",
                *(f"  {name}" for name in self.files),
                f"\n{self.balance}",
                f"\n{self.usability}",
            ]
        )

    def _method_line(self) -> str:
        """Return the method of the model and, if `Auto` chose it, the reason."""
        chosen = method_and_reason(self.model)
        return f"Method: {chosen['method']}" + (f", {REASON}: {chosen['reason']}" if "reason" in chosen else "")


def method_and_reason(model: FittedModel) -> dict[str, str]:
    """Return the method of a model and, if `Auto` chose it, the reason."""
    reason = model.facts.settings.get(REASON)
    return {"method": model.method} | ({} if reason is None else {"reason": str(reason)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOptions:
    """The method of a release or a model, and what is sampled from it; `release` describes each option."""

    method: str = "auto"
    missing: Missing | None = None
    always: Sequence[Sequence[str]] = ()
    gaps: Gaps = "filled"
    rows: int | None = None
    copies: int | None = None
    seed: int | None = None
    expected_rows: int | None = None
    also: Sequence[str] = ()

    def synthesizer(self, schema: Schema) -> Synthesizer:
        """Return the synthesizer; tables that are always measured select AIM."""
        if self.method not in METHODS:
            raise ModelError(f"there is no method {self.method!r}", hint=f"choose {nearest(str(self.method), METHODS)}")
        more: dict[str, Any] = {} if self.missing is None else {"missing": self.missing}
        if self.always:
            if self.method not in ("auto", AIM.name):
                raise ModelError(
                    f"only the method aim can always measure sets of columns jointly, got the method {self.method}",
                    hint=Hint("pass ", Argument("method", "aim")) | Hint("leave ", Argument("always"), " out"),
                )
            synthesizer = AIM(always=[tuple(names) for names in self.always], **more)
            synthesizer.always_measured(schema)
            return synthesizer
        return METHODS[self.method](**more | ({"expected_rows": self.expected_rows} if self.method == "auto" else {}))

    def check(self, schema: Schema, budget: Budget | None) -> Synthesizer:
        """Refuse options that public facts rule out, and return the synthesizer."""
        synthesizer = self.synthesizer(schema)
        self._check_gaps(synthesizer, schema)
        if self.rows is not None:
            whole("rows", self.rows, error=ModelError)
        if self.copies is not None:
            self._check_copies(self.copies, synthesizer, schema)
        for name in self.files_of_rows():
            check_output(Path(name), schema)
        if self.seed is not None:
            seed_or_new(self.seed)
        if budget is not None:
            check_declared(synthesizer, budget)
        return synthesizer

    def files_of_rows(self) -> tuple[str, ...]:
        """Return the names of the further files of rows."""
        known = {ending.removeprefix("."): name for name, ending in ALSO.items()}
        if isinstance(self.also, str) or (odd := [kind for kind in self.also if kind not in known]):
            given = self.also if isinstance(self.also, str) else odd[0]
            raise ReadError(
                f"there is no format {given!r} for the rows of a release; there are: {listing(known)}",
                hint=Hint("pass ", Argument("also", ["sav"])),
            )
        return tuple(known[kind] for kind in dict.fromkeys(self.also))

    def _check_gaps(self, synthesizer: Synthesizer, schema: Schema) -> None:
        """Refuse to sample gaps that are not measured. Without columns that may be missing there are none to sample."""
        check_gaps(self.gaps)
        measured = synthesizer.counts_gaps or not any(column.gaps for column in schema.columns)
        if self.gaps == "as-observed" and not measured:
            measuring = [Argument("missing", Call(kind.__name__)) for kind in synthesizer.learns_gaps or (Extended,)]
            choices = [Hint("pass ", choice, " for rows with gaps") for choice in measuring]
            raise ModelError(
                f"the treatment {synthesizer.missing} does not measure where gaps are, so rows cannot have gaps as "
                "observed",
                hint=reduce(or_, [*choices, Hint("pass ", Argument("gaps", "filled"), " for complete rows")]),
            )

    @staticmethod
    def _check_copies(copies: int, synthesizer: Synthesizer, schema: Schema) -> None:
        whole("copies", copies, error=ModelError, least=2)
        if COPY in schema.names:
            raise ModelError(
                f"the file of the copies needs the column name {COPY!r}, but the schema has it",
                hint=Hint(f"rename the column {COPY!r}") | Hint("leave ", Argument("copies"), " out"),
            )
        if not synthesizer.keeps_measurements:
            raise ModelError(
                f"the method {synthesizer.name} does not learn from tables of counts, so it cannot make copies",
                hint=Hint(
                    "pass ",
                    Argument("method", "factors"),
                    "; mixture, aim, mst, privbayes and independent make copies too",
                ),
            )
        if any(column.gaps for column in schema.columns) and not synthesizer.counts_gaps:
            raise ModelError(
                f"the treatment {synthesizer.missing} does not measure gaps, so estimates from copies would have no "
                "interval",
                hint=Hint("pass ", Argument("missing", Call("Extended"))) | Hint("leave ", Argument("copies"), " out"),
            )


def release(
    table: PrivateTable,
    folder: str | Path,
    *,
    spend: Spend,
    method: str = "auto",
    missing: Missing | None = None,
    always: Sequence[Sequence[str]] = (),
    gaps: Gaps = "filled",
    rows: int | None = None,
    copies: int | None = None,
    seed: int | None = None,
    expected_rows: int | None = None,
    also: Sequence[str] = (),
    progress: Progress | None = None,
    notify: Notify | None = None,
) -> Release:
    """Make a release folder from a sensitive table: synthetic rows, statement, report, dictionary, model, manifest.

    Errors are raised before anything is spent. Every released value is kept, and the model as soon as it is paid for.
    If anything stops the release, the same call resumes it and pays for nothing twice.

    Args:
        table: the sealed table.
        folder: a separate folder, created if there is none; a finished release is never changed.
        spend: what the release may spend: "50%" of the whole budget, or a loss, such as `table.ledger.left`.
        method: auto, factors, mixture, aim, mst, privbayes, independent, kamino, or the name of a network.
        missing: the treatment of gaps; by default that of the method, `Extended()` for all but misgan.
        always: sets of columns that are always measured jointly, for estimates with intervals; aim only, or auto.
        gaps: "filled" for complete rows, "as-observed" to sample the gaps too.
        rows: the number of synthetic rows; by default the noisy number of private rows.
        copies: the number of copies for inference to add, with a guide to pool them; by default none.
        seed: seed of the sample, to repeat it; noise cannot be seeded.
        expected_rows: the approximate number of rows, if public, for `method="auto"`; by default the schema's.
        also: further formats for the same rows: "sav", "dta" or "xlsx". Files of the first two are written at once, so
            all rows are in memory.
        progress: called with the phase, the steps done and the number of steps.
        notify: called with messages for the data holder: a weak guarantee, before anything is spent; that a release is
            resumed; columns that are mostly missing.
    """
    options = ReleaseOptions(
        method=method,
        missing=missing,
        always=always,
        gaps=gaps,
        rows=rows,
        copies=copies,
        seed=seed,
        expected_rows=expected_rows,
        also=also,
    )
    fit = _PaidFit.checked(table, options, spend, caller="release()", progress=progress, notify=notify)
    folder, ledger = Path(folder), table.ledger
    seed = seed_or_new(seed)
    phase, say = progress or (lambda *_: None), fit.notify
    with open_folder(folder, ledger.given_path) as journal:
        notify_cautions(ledger, table.schema, say)
        kept = kept_model(folder, table.schema, ledger)
        if kept is None:
            with fit.run(journal) as model:
                keep_model(folder, model, ledger)
        else:
            model = kept
            begun = _begun_with(folder, model, options)
            say(f"{begun}. It is finished with the model that was paid for. Nothing is spent.")
        phase("sampling", 0, 1)
        many = max(0, round(model.total)) if rows is None else int(rows)
        sample = model.sample(min(many, PART_ROWS), seed=seed, gaps=gaps)  # all rows, or the first ones
        write = None if many == sample.rows else partial(model.write_sample, rows=many, seed=seed, gaps=gaps)
        phase("judging", 0, 1)
        verdict = usability(model, sample)
        for caution in filter(None, (model.pinned(), mostly_missing_sentence(verdict.columns))):
            say(f"Warning: {caution}")
        phase("writing", 0, 1)
        tables = None if copies is None else model.copies(copies, seed=seed, progress=progress)
        # The journal stays locked until all is written, so that no other process writes into the folder.
        files = write_folder(
            folder,
            model,
            sample,
            ledger,
            verdict,
            rows=many,
            write=write,
            copies=tables,
            also=options.files_of_rows(),
            journal=journal,
        )
    return Release(
        folder=folder,
        files=files,
        rows=many,
        taken_up=kept is not None,
        model=model,
        usability=verdict,
        guarantee=ledger.guarantee(),
        balance=Balance.of(ledger),
    )


def check_release(
    schema: Schema, folder: str | Path, options: ReleaseOptions, *, ledger: Path, budget: Budget | None, all_left: bool
) -> None:
    """Refuse what `release` would refuse, before a table is read and its ledger is created.

    Args:
        schema: the schema of the table.
        folder: the folder of the release.
        options: the method, and what is sampled.
        ledger: the table's ledger, which need not exist yet.
        budget: the budget of a ledger that does not exist yet.
        all_left: whether the release would spend all that is left; a spent budget is then refused.
    """
    options.check(schema, budget)
    with open_folder(Path(folder), ledger):
        if all_left and ledger.exists() and not is_begun(Path(folder)):
            known = Ledger.open(ledger)
            if budget in (None, known.budget):
                known.check_not_spent()


def save_model(
    table: PrivateTable,
    path: str | Path,
    *,
    spend: Spend,
    method: str = "auto",
    missing: Missing | None = None,
    always: Sequence[Sequence[str]] = (),
    expected_rows: int | None = None,
    progress: Progress | None = None,
    notify: Notify | None = None,
) -> ModelFile:
    """Fit a model to a sensitive table and save it. The arguments are those of `release`.

    No file is replaced. If a file has appeared at `path` meanwhile, the model is saved under another name beside it.
    While one process fits the model, another one with the same path waits, and is then refused.
    """
    options = ReleaseOptions(method=method, missing=missing, always=always, expected_rows=expected_rows)
    fit = _PaidFit.checked(table, options, spend, caller="save_model()", progress=progress, notify=notify)
    ledger = table.ledger
    check_model_path(path, ledger=ledger.given_path)
    with open_journal_file(f"{path}.journal") as journal:
        check_writable(Path(path), must_not_exist=True)  # again: another process may have saved the model meanwhile
        notify_cautions(ledger, table.schema, fit.notify)
        with fit.run(journal) as model:
            saved = free_name(Path(path))
            model.save(saved)
        journal.discard()
    return ModelFile(path=saved, model=model, guarantee=ledger.guarantee(), balance=Balance.of(ledger))


def check_model_path(path: str | Path, *, ledger: Path) -> None:
    """Refuse a path at which no new model can be saved."""
    check_writable(Path(path), distinct_from=(ledger, seal_of(ledger)), must_not_exist=True)


@dataclass(frozen=True, slots=True)
class _PaidFit:
    """A fit that is checked before anything is spent, and paid for once even if it is stopped."""

    table: PrivateTable
    synthesizer: Synthesizer
    spend: Spend
    progress: Progress | None
    notify: Notify

    @classmethod
    def checked(
        cls,
        table: PrivateTable,
        options: ReleaseOptions,
        spend: Spend,
        *,
        caller: str,
        progress: Progress | None,
        notify: Notify | None,
    ) -> _PaidFit:
        """Refuse what public facts rule out: a public table, options, a wrong share."""
        check_private(table, caller)
        synthesizer = options.check(table.schema, table.ledger.budget)
        table.ledger.share(spend)  # refuses a wrong share
        return cls(table, synthesizer, spend, progress, notify or (lambda _: None))

    @contextmanager
    def run(self, journal: JournalFile) -> Iterator[FittedModel]:
        """Fit the model and yield it, to be saved. Until then the journal keeps all answers, so a new call resumes."""
        table, ledger = self.table, self.table.ledger
        call = {
            "synthesizer": repr(self.synthesizer),
            # Less is left when a run resumes, so a loss is not compared.
            "percent": None if isinstance(self.spend, Loss) else percent_of(self.spend),
            "schema": table.schema.to_toml(),
            "query": table.query_digest,
        }
        with record_in(journal, ledger, call=call) as run:
            if run.is_resumed:
                self.notify(
                    f"{journal.path} holds the answers of an earlier call. This call resumes from there and does not "
                    "pay for them again."
                )
            if run.spend is None and isinstance(self.spend, Loss):
                ledger.check_not_spent()
            loss = ledger.share(self.spend) if run.spend is None else run.spend
            yield self.synthesizer.fit(table, spend=loss, progress=self.progress)


def _begun_with(folder: Path, model: FittedModel, options: ReleaseOptions) -> str:
    """Return how a release was begun. Refuse to finish it with another method, which would have to be paid for."""
    treatment = str(model.facts.settings["missing"])
    begun = f"{folder} was begun with {model.method}, {treatment}"
    asked = options.missing
    if options.method not in ("auto", model.method) or (asked is not None and repr(asked) != treatment):
        raise ReadError(
            f"{begun}; it must be finished with the same method and treatment of gaps",
            hint=Hint("pass the same ", Argument("method"), " and ", Argument("missing")) | Hint("leave both out"),
        )
    return begun
