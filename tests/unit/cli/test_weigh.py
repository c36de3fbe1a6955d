"""`gapless weigh` refuses by public facts, before a ledger is made."""

from helpers.command_line import run


def test_synthetic_rows_that_are_not_there_are_refused_before_a_ledger_is_made(tmp_path):
    (tmp_path / "people.toml").write_text(
        '[table]\nname = "people"\n[column.sex]\nkind = "categorical"\nlevels = ["F", "M"]\n'
    )
    (tmp_path / "people.csv").write_text("sex\nF\nM\n")
    promise = ("--epsilon", 1, "--delta", 1e-6)
    done = run("weigh", "people.csv", "fake.csv", "-s", "people.toml", *promise, "-o", "weighted.csv", cwd=tmp_path)
    assert done.returncode == 1
    assert "fake.csv" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.csv", "people.toml"]
