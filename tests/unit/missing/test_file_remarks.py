"""What `gapless check` says of a file that differs from its codebook."""

import polars as pl

import gapless as gl

ROWS = 100


def remarks(column, cells):
    frame = pl.DataFrame({column.name: cells})
    return [remark.text for remark in gl.missing.check(frame, gl.Schema("t", [column])).remarks]


def coded(**more):
    return gl.Categorical("q", [1, 2, 3], labels={3: "Widowed"}, may_be_missing=True, **more)


def test_a_file_that_fits_its_codebook_gets_no_remark():
    assert remarks(coded(), ["1", "2", "3", ""] * 25) == []
    assert remarks(gl.Integer("age", bounds=(0, 120)), [*range(18, 88), *range(20, 50)]) == []
    assert remarks(gl.Boolean("b"), ["yes", "no"] * 50) == []


def test_codes_and_labels_are_compared_both_ways():
    found = remarks(coded(), ["1", "2", "4", "-9"] * 25)
    assert found == [
        'codes outside the schema that look like gaps: if the codebook says so, write missing = ["-9"]',
        "codes that the schema does not name: '4'",
        "levels that never occur: 3 (Widowed); keep them if they are possible",
    ]


def test_codes_for_gaps_among_levels_and_beyond_bounds():
    assert remarks(gl.Categorical("q", [1, 2, 99]), [1, 2, 99, 1]) == [
        "levels that look like codes for gaps: 99; if so, move them from levels to missing"
    ]
    found = remarks(gl.Integer("age", bounds=(0, 90)), [*range(18, 88), 999, 999])
    assert found == ['codes outside the schema that look like gaps: if the codebook says so, write missing = ["999"]']


def test_words_among_numbers_constants_empty_columns_and_ids():
    number = gl.Number("x", bounds=(0, 100), may_be_missing=True)
    assert remarks(number, [*map(str, range(90)), *["n.b."] * 10]) == [
        "words among numbers: 'n.b.'; add them to missing if they mean a gap",
        "a different value in each row, such as an identifier: add it to ignore",
    ]
    assert remarks(number, ["1.5"] * 3) == [
        "all cells with a value are the same: add it to ignore, unless other values are possible"
    ]
    assert remarks(number, ["1.5", "2.5"] + [""] * 98)[0].startswith("at least 70% of the cells are missing")
    assert remarks(number, [""] * 9) == ["no cell has a value: add it to ignore"]
    ids = gl.Integer("number", bounds=(0, 10**6))
    assert remarks(ids, list(range(1000, 1100))) == [
        "a different value in each row, such as an identifier: add it to ignore"
    ]
    assert remarks(gl.Integer("number", bounds=(0, 10**6)), list(range(50))) == []


def test_eighty_alike_are_one_remark():
    columns = [gl.Categorical(f"q{number:02d}", [1, 2], may_be_missing=True) for number in range(1, 81)]
    frame = pl.DataFrame({column.name: ["1", "2", "-8"] for column in columns})
    found = gl.missing.check(frame, gl.Schema("t", columns)).remarks
    assert [str(remark) for remark in found] == [
        'q01..q80: codes outside the schema that look like gaps: if the codebook says so, write missing = ["-8"]'
    ]
