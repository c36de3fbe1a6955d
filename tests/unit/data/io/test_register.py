"""The register beside the data: a file with a ledger takes no second one, under any name."""

import contextlib
import errno
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

import gapless as gl
from gapless.data.io import register
from gapless.data.io.register import REGISTER, check_not_covered, data_files
from gapless.privacy import for_counts
from gapless.privacy.promise import UNREGISTERED

SCHEMA = gl.Schema("people", [gl.Categorical("sex", ["F", "M"], may_be_missing=True)])
ROWS = pl.DataFrame({"sex": ["F", "M", None, "F"] * 5})
ENGINES = ["memory", "disk", "duckdb"]


def read(path, ledger=None, **more):
    given = {"protect": gl.Rows(1), "budget": gl.Budget(1.0, 1e-6)} | more
    return gl.read(path, SCHEMA, ledger=ledger, **given)


def pay(table, percent=10):
    """Release something, and give the table."""
    value = table.marginal("sex")
    grant = table.ledger.grant(table.ledger.share(f"{percent}%"), to="test")
    grant.release(value, for_counts(grant.left, value.distance), what="sex")
    return table


def spent(path):
    return len(gl.Ledger.open(path).entries)


def lines(folder):
    return [json.loads(line) for line in (folder / REGISTER).read_text().splitlines()[1:]]


@pytest.fixture
def big(tmp_path):
    """A folder with two files."""
    folder = tmp_path / "big"
    folder.mkdir()
    for year in (2024, 2025):
        ROWS.write_csv(folder / f"{year}.csv")
        ROWS.write_parquet(folder / f"{year}.parquet")
    return folder


# ---------------------------------------------------------------------- two ledgers for the same rows


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_that_was_paid_for_takes_no_second_ledger_by_a_pattern(big, engine, ending):
    if engine == "duckdb":
        pytest.importorskip("duckdb")
    pay(read(big / f"2024.{ending}", engine=engine))
    with pytest.raises(gl.errors.LedgerError) as error:
        read(big / f"*.{ending}", engine=engine)
    assert error.value.message == (
        f"{big}/2024.{ending} is covered by the ledger {big}/2024.ledger, and {big.parent}/big.ledger would be a "
        "second budget for the same rows"
    )
    assert error.value.hint == (
        f'pass ledger="{big}/2024.ledger"; if {big}/2024.{ending} now holds other people than before, '
        "and only then, save it under a new name"
    )
    assert not (big.parent / "big.ledger").exists()
    assert spent(big / "2024.ledger") == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_files_of_a_pattern_that_were_paid_for_take_no_second_ledger_one_by_one(big, engine):
    if engine == "duckdb":
        pytest.importorskip("duckdb")
    pay(read(big / "*.parquet", engine=engine))
    for year in (2024, 2025):
        with pytest.raises(gl.errors.LedgerError, match=r"is covered by the ledger .*/big\.ledger"):
            read(big / f"{year}.parquet", engine=engine)
        pay(read(big / f"{year}.parquet", big.parent / "big.ledger", engine=engine))
    assert spent(big.parent / "big.ledger") == 3


def test_the_hint_can_be_followed(big):
    pay(read(big / "2024.csv"))
    pay(read(big / "*.csv", big / "2024.ledger"))
    assert spent(big / "2024.ledger") == 2
    with pytest.raises(gl.errors.LedgerError, match=r"2025.csv is covered by the ledger .*/2024.ledger"):
        read(big / "2025.csv")


def test_the_register_covers_files_that_only_spark_reads(big):
    (big / "_SUCCESS").touch()
    pay(read(big / "2024.parquet", big.parent / "a.ledger"))
    for data in (big, f"file://{big}", f"{big}/*.parquet", big / "2024.parquet"):
        files = data_files(str(data), "spark")
        assert {file.real_path.suffix for file in files} <= {".parquet", ".csv"}
        assert big / "2024.parquet" in [file.real_path for file in files]
        with pytest.raises(gl.errors.LedgerError, match=r"2024\.parquet is covered by"):
            check_not_covered(files, big / "other.ledger")
    assert data_files("hdfs://host/people.parquet", "spark") == []


def test_a_table_with_an_unspent_ledger_is_refused_when_another_paid_first(big):
    first, second = read(big / "2024.csv"), read(big / "*.csv")  # nothing is spent: both may be read
    assert (big.parent / "big.ledger").exists()
    pay(first)
    with pytest.raises(gl.errors.LedgerError, match=r"2024.csv is covered by the ledger .*/2024\.ledger"):
        pay(second)
    assert spent(big.parent / "big.ledger") == 0
    pay(first)  # and goes on


def test_files_under_two_ledgers_are_not_read_together(big):
    pay(read(big / "2024.csv"))
    pay(read(big / "2025.csv"))
    for ledger in (None, big / "2024.ledger", big / "2025.ledger"):
        with pytest.raises(
            gl.errors.LedgerError, match=r"2024\.csv is .*/2024\.ledger, and .*2025\.csv by .*/2025\.ledger"
        ) as e:
            read(big / "*.csv", ledger)
        assert e.value.hint == "read each file separately, under its own ledger"


def test_files_of_several_folders_are_looked_up_together(tmp_path):
    for year in (2024, 2025):
        (tmp_path / "all" / str(year)).mkdir(parents=True)
        ROWS.write_csv(tmp_path / "all" / str(year) / "part.csv")
    pay(read(tmp_path / "all/**/*.csv"))
    assert [line["name"] for year in (2024, 2025) for line in lines(tmp_path / f"all/{year}")] == ["part.csv"] * 2
    with pytest.raises(gl.errors.LedgerError, match=r"is covered by the ledger .*/all\.ledger"):
        read(tmp_path / "all/2025/part.csv")
    (tmp_path / f"all/2025/{REGISTER}").unlink()
    pay(read(tmp_path / "all/2025/part.csv"))
    with pytest.raises(gl.errors.LedgerError, match="no ledger may pay for both"):
        read(tmp_path / "all/**/*.csv")


# ---------------------------------------------------------------------- the same file under other names


def test_a_file_that_is_written_anew_is_covered_by_its_name(big):
    pay(read(big / "2024.csv"))
    (big / "2024.csv").rename(big / "old.csv")
    ROWS.write_csv(big / "2024.csv")
    with pytest.raises(gl.errors.LedgerError, match=r"2024\.csv is covered"):
        read(big / "2024.csv", big / "another.ledger")
    pay(read(big / "2024.csv"))
    with pytest.raises(
        gl.errors.LedgerError, match=r"old\.csv is the same file as 2024\.csv, which is covered by the ledger"
    ):
        read(big / "old.csv")  # its earlier version


def test_an_inode_is_forgotten_when_its_file_was_written_anew_and_is_gone(big):
    pay(read(big / "2024.csv"))
    before = (big / "2024.csv").stat().st_ino
    ROWS.write_csv(big / "new")
    (big / "new").replace(big / "2024.csv")
    pay(read(big / "2024.csv"))
    assert lines(big)[-1]["inodes"] == [[big.stat().st_dev, (big / "2024.csv").stat().st_ino]]
    assert lines(big)[0]["inodes"][0][1] == before


@pytest.mark.parametrize("make", ["rename", "hardlink_to", "symlink_to"])
def test_a_file_under_another_name_is_covered(big, make):
    pay(read(big / "2024.csv"))
    other = big / "other.csv"
    if make == "rename":
        (big / "2024.csv").rename(other)
    else:
        getattr(other, make)(big / "2024.csv")
    with pytest.raises(
        gl.errors.LedgerError, match=r"2024\.csv(, which)? is covered by the ledger .*/2024\.ledger|other\.csv"
    ):
        read(other, big / "other.ledger")
    assert not (big / "other.ledger").exists()
    pay(read(other, big / "2024.ledger"))


def test_a_link_from_another_folder_leads_to_the_register_of_the_file(big, tmp_path):
    (tmp_path / "links").mkdir()
    (tmp_path / "links/latest.csv").symlink_to(big / "2024.csv")
    pay(read(tmp_path / "links/latest.csv", tmp_path / "p.ledger"))
    assert not (tmp_path / "links" / REGISTER).exists()
    with pytest.raises(gl.errors.LedgerError, match=r"2024\.csv is covered by the ledger .*/p\.ledger"):
        read(big / "2024.csv")


def test_names_decide_where_exports_exchange_their_inodes(big):
    """A nightly export deletes and writes: files get each other's inodes, and none is refused for that."""
    for year in (2024, 2025):
        pay(read(big / f"{year}.csv"))
    (big / "2024.csv").rename(big / "x")
    (big / "2025.csv").rename(big / "2024.csv")
    (big / "x").rename(big / "2025.csv")
    for year in (2024, 2025):
        pay(read(big / f"{year}.csv"))


def test_an_inode_that_was_used_again_is_refused_with_a_way_out_that_works(big):
    pay(read(big / "2024.csv"))
    (big / "2024.csv").rename(big / "others.csv")  # as if 2024.csv was deleted and others.csv got its inode
    with pytest.raises(
        gl.errors.LedgerError,
        match=r"if .*others\.csv now holds other people than before, and only then, save it under a new name",
    ):
        read(big / "others.csv")
    shutil.copy(big / "others.csv", big / "visits.csv")
    pay(read(big / "visits.csv"))


def test_another_device_number_is_no_other_file(big, monkeypatch):
    """A network file system may get one with each mount."""
    pay(read(big / "2024.csv"))
    register_file = big / REGISTER
    device = big.stat().st_dev
    register_file.write_text(register_file.read_text().replace(f"[[{device},", f"[[{device + 1},"))
    with pytest.raises(gl.errors.LedgerError, match="is covered"):
        read(big / "2024.csv", big / "other.ledger")
    pay(read(big / "2024.csv"))
    assert lines(big)[-1]["inodes"] == [[device, (big / "2024.csv").stat().st_ino]]


# ---------------------------------------------------------------------- the ledger under other names


def test_a_ledger_is_known_by_its_identity(big, monkeypatch):
    monkeypatch.chdir(big)
    pay(read("2024.csv"))
    (big / "link.ledger").symlink_to("2024.ledger")
    for name in ("2024.ledger", big / "2024.ledger", "../big/2024.ledger", "link.ledger"):
        pay(read("2024.csv", name))
    assert len(lines(big)) == 1
    (big / "link.ledger").unlink()
    for ending in ("", ".seal"):
        (big / f"2024.ledger{ending}").rename(big / f"moved.ledger{ending}")
    pay(read("2024.csv", "moved.ledger"))
    assert [line["ledger"]["path"] for line in lines(big)] == [f"{big}/2024.ledger", f"{big}/moved.ledger"]
    with pytest.raises(gl.errors.LedgerError, match=r'pass ledger=".*/moved\.ledger"'):
        read("2024.csv")


def test_a_folder_that_was_moved_with_its_ledger_finds_it(big, tmp_path):
    pay(read(big / "2024.csv"))
    big.rename(tmp_path / "moved")
    with pytest.raises(gl.errors.LedgerError, match=r'pass ledger=".*/moved/2024\.ledger"'):
        read(tmp_path / "moved/2024.csv", tmp_path / "other.ledger")
    pay(read(tmp_path / "moved/2024.csv"))


def test_a_ledger_that_is_gone_is_not_replaced(big):
    pay(read(big / "2024.csv"))
    for path in big.glob("2024.ledger*"):
        path.unlink()
    with pytest.raises(gl.errors.LedgerError) as error:
        read(big / "2024.csv", budget=gl.Budget(2.0, 1e-6))
    assert error.value.message == f"{big}/2024.csv is covered by the ledger {big}/2024.ledger, which is gone"
    assert error.value.hint == (
        f"pass its path as ledger= if it was moved, or restore it and its .seal from a backup; "
        f"if {big}/2024.csv now holds other people than before, and only then, save it under a new name; "
        "only if nothing that was released under it was ever shared, remove "
        f'the lines that name "2024.csv" in {big}/{REGISTER}'
    )
    assert not (big / "2024.ledger").exists()
    kept = [line for line in (big / REGISTER).read_text().splitlines() if '"2024.csv"' not in line]
    (big / REGISTER).write_text("\n".join(kept) + "\n")
    pay(read(big / "2024.csv", budget=gl.Budget(2.0, 1e-6)))


def test_another_ledger_in_its_place_does_not_stand_for_it(big):
    pay(read(big / "2024.csv"))
    for path in big.glob("2024.ledger*"):
        path.unlink()
    gl.Ledger.attach(big / "2024.ledger", table="people", protect=gl.Rows(1), budget=gl.Budget(1.0, 1e-6))
    with pytest.raises(gl.errors.LedgerError, match=r"/2024\.ledger, which is gone"):
        read(big / "2024.csv")


def test_a_ledger_without_charges_covers_no_file(big):
    """A steward who tries, deletes the ledger and starts again with another ε is not stopped."""
    read(big / "2024.csv")
    for path in big.glob("2024.ledger*"):
        path.unlink()
    pay(read(big / "2024.csv", budget=gl.Budget(2.0, 1e-6)))


def test_after_a_crash_between_register_and_charge_the_error_states_that_nothing_was_spent(big, monkeypatch):
    table = read(big / "2024.csv")
    monkeypatch.setattr("gapless.privacy.ledger_file.append", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pay(table)
    monkeypatch.undo()
    with pytest.raises(gl.errors.LedgerError) as error:
        read(big / "2024.csv", big / "other.ledger")
    assert error.value.message.endswith("for the same rows; nothing was spent so far")
    assert error.value.hint.startswith(
        f'pass ledger="{big}/2024.ledger"; to use {big}/other.ledger instead, remove the lines that name "2024.csv"'
    )
    pay(read(big / "2024.csv"))


def test_a_ledger_from_before_the_register_is_entered_when_it_is_read(big):
    pay(read(big / "2024.csv"))
    (big / REGISTER).unlink()
    read(big / "2024.csv")
    with pytest.raises(gl.errors.LedgerError, match="is covered"):
        read(big / "*.csv")


def test_a_file_that_was_only_looked_at_with_a_known_ledger_stays_free(big):
    pay(read(big / "2024.csv"))
    read(big / "*.csv", big / "2024.ledger")
    pay(read(big / "2025.csv"))


# ---------------------------------------------------------------------- the file itself


def test_the_register_holds_nothing_of_the_content(big):
    pay(read(big / "2024.csv"))
    stat = (big / "2024.csv").stat()
    ledger = gl.Ledger.open(big / "2024.ledger")
    assert lines(big) == [
        {
            "name": "2024.csv",
            "inodes": [[stat.st_dev, stat.st_ino]],
            "ledger": {"identity": ledger.identity, "path": f"{big}/2024.ledger"},
        }
    ]


def test_the_register_is_not_read_as_data(big):
    pay(read(big / "2024.csv"))
    for path in big.glob("*.parquet"):
        path.unlink()
    for path in big.glob("2024.ledger*"):
        path.rename(big.parent / path.name)
    read(big / "*", big.parent / "2024.ledger")
    assert REGISTER not in [file.real_path.name for file in data_files(str(big), "spark")]


def test_reading_again_writes_nothing(big):
    pay(read(big / "*.csv"))
    before = (big / REGISTER).stat()
    pay(read(big / "*.csv"))
    pay(read(big / "2025.csv", big.parent / "big.ledger"))
    after = (big / REGISTER).stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)


@pytest.mark.parametrize("left", [b'{"name": "2025.c', b"\0\0\0\0", b'{"name"\0\0', b"{" * 999])
def test_half_a_line_after_a_crash_is_no_entry(big, left):
    pay(read(big / "2024.csv"))
    with (big / REGISTER).open("ab") as file:
        file.write(left)
    pay(read(big / "2025.csv"))
    assert [line["name"] for line in lines(big)] == ["2024.csv", "2025.csv"]


@pytest.mark.parametrize("cut", [0, 5, 40])
def test_half_a_first_line_after_a_crash_is_no_register(big, cut):
    pay(read(big / "2024.csv"))
    (big / REGISTER).write_bytes((big / REGISTER).read_bytes()[:cut])
    pay(read(big / "2024.csv"))
    assert [line["name"] for line in lines(big)] == ["2024.csv"]


@pytest.mark.parametrize(
    "line",
    [
        "hello",
        "[]",
        '{"name": "x"}',
        '{"name": "x", "inodes": 1, "ledger": {}}',
        "[" * 9**5,
        '{"name": "x", "inodes": [[1e999, 1]], "ledger": {}}',
    ],
)
def test_a_line_that_cannot_be_read_is_not_passed_over(big, line):
    pay(read(big / "2024.csv"))
    (big / REGISTER).write_text(f"{line}\n{(big / REGISTER).read_text()}")
    with pytest.raises(
        gl.errors.LedgerError,
        match=r"line 1 of .*\.gapless-register cannot be read\n  Try: restore it .* delete line 1;",
    ):
        read(big / "2025.csv")


def test_a_register_of_a_newer_version_is_left_alone(big):
    (big / REGISTER).write_text('{"gapless": "register", "version": 2}\n')
    with pytest.raises(gl.errors.LedgerError, match="written by a newer gapless"):
        read(big / "2024.csv")


def test_names_that_are_no_unicode_are_entered(big):
    try:
        odd = Path(os.fsdecode(os.fsencode(big) + b"/\xff\xe9.csv"))
        ROWS.write_csv(odd.with_name("plain"))
        odd.with_name("plain").rename(odd)
    except OSError:
        pytest.skip("this file system takes only Unicode names")
    files = data_files(odd, None)
    table = read(big / "2024.csv")
    register.enter_files(files, table.ledger)
    with pytest.raises(gl.errors.LedgerError, match="is covered"):
        check_not_covered(files, big / "other.ledger")


# ---------------------------------------------------------------------- folders that cannot be written to


@pytest.fixture
def read_only(monkeypatch):
    """A folder in which nothing can be made or changed: root, as whom tests may run, could."""

    def make(folder):
        def refuse_open(path, flags, *more, plain=os.open, **keywords):
            if Path(path) == folder / REGISTER and flags & os.O_RDWR:
                raise PermissionError(errno.EACCES, "Permission denied", path)
            return plain(path, flags, *more, **keywords)

        def refuse_access(path, mode, plain=os.access):
            return False if Path(path) in (folder, folder / REGISTER) else plain(path, mode)

        monkeypatch.setattr(register.os, "open", refuse_open)
        monkeypatch.setattr(register.os, "access", refuse_access)

    return make


def test_files_in_a_read_only_folder_are_read_and_reported_as_unregistered(big, tmp_path, read_only):
    read_only(big)
    table = read(big / "2024.csv", tmp_path / "a.ledger")
    assert table.ledger.coverage == "unregistered"
    assert UNREGISTERED in table.ledger.cautions()  # before anything is spent
    assert UNREGISTERED in str(table.ledger)
    pay(table)
    assert table.ledger.coverage == "unregistered"
    assert not (big / REGISTER).exists()
    pay(read(big / "2024.csv", tmp_path / "b.ledger"))


def test_a_register_that_can_only_be_read_is_minded(big, tmp_path, read_only):
    pay(read(big / "2024.csv"))
    read_only(big)
    with pytest.raises(gl.errors.LedgerError, match="is covered"):
        read(big / "2024.csv", tmp_path / "a.ledger")
    assert pay(read(big / "2024.csv")).ledger.coverage == "registered"
    ROWS.write_csv(big / "new")
    (big / "new").replace(big / "2024.csv")  # its new inode cannot be entered, and its name is
    assert pay(read(big / "2024.csv")).ledger.coverage == "registered"
    assert pay(read(big / "2025.csv", tmp_path / "b.ledger")).ledger.coverage == "unregistered"


def test_a_folder_that_is_gone_before_anything_is_spent(big):
    table = read(big / "2024.csv", big.parent / "a.ledger")
    shutil.rmtree(big)
    assert pay(table).ledger.coverage == "unregistered"


def test_a_full_disk_stops_before_the_charge(big, monkeypatch):
    table = read(big / "2024.csv")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with (
        monkeypatch.context() as patched,
        pytest.raises(gl.errors.LedgerError, match=r"cannot write .*\.gapless-register: No"),
    ):
        patched.setattr(register.os, "fsync", full)
        pay(table)
    assert spent(big / "2024.ledger") == 0
    pay(table)
    assert [line["name"] for line in lines(big)] == ["2024.csv"]


def test_a_register_that_may_not_be_read_is_not_passed_over(big, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(
        gl.errors.LedgerError, match=r"cannot read .*\.gapless-register, .*: Permission denied\n  Try: ask"
    ):
        read(big / "2024.csv")


def test_rows_without_a_file_are_unknown(tmp_path):
    table = read(ROWS, tmp_path / "a.ledger")
    assert pay(table).ledger.coverage == "unknown"
    assert UNREGISTERED not in table.ledger.cautions()
    assert {path.name for path in tmp_path.iterdir()} == {"a.ledger", "a.ledger.seal"}


def test_the_entry_is_on_the_disk_before_the_charge(big, monkeypatch):
    events = []
    table = read(big / "2024.csv")

    def flush(descriptor, plain=os.fsync):
        plain(descriptor)
        if (big / REGISTER).exists():
            events.append(
                next((n for n in (REGISTER, ".") if os.path.samestat(os.fstat(descriptor), (big / n).stat())), "")
            )

    monkeypatch.setattr(register.os, "fsync", flush)
    monkeypatch.setattr(
        "gapless.privacy.ledger_file.append",
        lambda *given, plain=gl.privacy.ledger_file.append: (events.append("charged"), plain(*given)),
    )
    pay(table)
    assert events[:3] == [REGISTER, ".", "charged"]  # the file, its name in the folder, and then the ledger


def test_threads_that_charge_at_once_enter_a_file_once(big):
    table = read(big / "2024.csv")
    with ThreadPoolExecutor(8) as threads:
        for _ in threads.map(lambda _: pay(table, percent=1), range(8)):
            pass
    assert spent(big / "2024.ledger") == 8
    assert [line["name"] for line in lines(big)] == ["2024.csv"]


def test_the_register_is_looked_at_again_under_its_lock(big, monkeypatch):
    """Another process may have entered a file after this one has looked and before it has the lock."""
    table = read(big / "2024.csv", big / "late.ledger")
    pay(read(big / "2024.csv"))
    monkeypatch.setattr(register, "_entries", lambda _: {})
    with pytest.raises(gl.errors.LedgerError, match=r"is covered by the ledger .*/2024\.ledger"):
        pay(table)
    assert spent(big / "late.ledger") == 0


def test_a_register_that_an_editor_has_replaced_is_opened_again(big, monkeypatch):
    pay(read(big / "2024.csv"))
    table, replaced = read(big / "2025.csv"), []

    @contextlib.contextmanager
    def wait(descriptor, path, plain=register.locked):
        if not replaced:
            replaced.append(shutil.copy(path, big / "edited"))
            (big / "edited").replace(path)
        with plain(descriptor, path) as there:
            yield there

    monkeypatch.setattr(register, "locked", wait)
    pay(table)
    assert [line["name"] for line in lines(big)] == ["2024.csv", "2025.csv"]


# ---------------------------------------------------------------------- found by trying it


@pytest.mark.parametrize("names", [("a.csv", "z.csv"), ("z.csv", "a.csv")])
def test_every_name_of_a_file_is_looked_up_whichever_is_read(big, tmp_path, names):
    """A hard link in another folder has no register there; the link beside it leads to one."""
    pay(read(big / "2024.csv"))
    other = tmp_path / "other"
    other.mkdir()
    (other / names[0]).hardlink_to(big / "2024.csv")
    (other / names[1]).symlink_to(big / "2024.csv")
    with pytest.raises(gl.errors.LedgerError, match=r"is covered by the ledger .*2024\.ledger"):
        read(other / "*.csv")
    assert not (tmp_path / "other.ledger").exists()


def test_a_charged_ledger_beside_a_file_covers_it_where_the_register_is_lost(big):
    pay(read(big / "2024.csv"))
    (big / REGISTER).unlink()
    with pytest.raises(
        gl.errors.LedgerError, match=r"2024\.csv is covered by the ledger .*2024\.ledger, and .*second\.ledger"
    ):
        read(big / "2024.csv", ledger=big / "second.ledger")
    with pytest.raises(gl.errors.LedgerError, match=r"is covered by the ledger .*2024\.ledger"):
        read(big / "*.csv")
    assert read(big / "2024.csv").ledger.entries  # its own goes on, and enters it again
    assert (big / REGISTER).exists()
    assert not read(big / "2025.csv", ledger=big / "second.ledger").ledger.entries


@pytest.mark.parametrize("path", [".", "", "/"])
def test_a_folder_without_a_name_is_refused_in_words(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(gl.GaplessError):
        read(path)
