"""Parquet and CSV files: read as the table they hold, and what is wrong with them is named."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.stream.tables import assert_same_pass, in_memory, many_kinds

from oakgp.schema import TableSchema
from oakgp.stream import encoded_chunks, first_pass, open_source


def frame(n: int = 2000) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    return many_kinds(n).drop(columns=["grade"]).assign(y=rng.normal(size=n), w=rng.random(n))


def write_folder(folder, table, pieces: int = 4, **options):
    folder.mkdir(exist_ok=True)
    size = -(-len(table) // pieces)
    for i in range(pieces):
        piece = table.iloc[i * size : (i + 1) * size]
        piece.to_parquet(folder / f"part-{i}.parquet", row_group_size=130, index=False, **options)


def test_file_folder_pattern_list_and_url_are_one_table(tmp_path) -> None:
    table = frame()
    write_folder(tmp_path / "set", table)
    (tmp_path / "set" / "_metadata.parquet").write_bytes(b"not a table")
    table.to_parquet(tmp_path / "one.parquet", index=False)
    features = table.drop(columns=["y", "w"])
    plain = first_pass(open_source(features, table.y, weight=table.w))
    names = [str(tmp_path / "set" / f"part-{i}.parquet") for i in range(4)]
    for data in (
        tmp_path / "one.parquet",
        str(tmp_path / "set"),
        str(tmp_path / "set" / "part-*.parquet"),
        names,
        f"file://{tmp_path}/set",
        f"file://{tmp_path}/set/part-*.parquet",
    ):
        source = open_source(data, "y", weight="w", chunk_rows=99)
        assert source.n_rows == 2000
        assert_same_pass(first_pass(source), plain, 1e-12)


def test_folders_name_columns(tmp_path) -> None:
    table = frame(600).assign(year=2020 + np.arange(600) // 200, zone="")
    table["zone"] = np.where(np.arange(600) % 200 < 100, "a/b", "c")
    for (year, zone), piece in table.groupby(["year", "zone"]):
        folder = tmp_path / f"year={year}" / f"zone={zone.replace('/', '%2F')}"
        folder.mkdir(parents=True)
        piece.drop(columns=["year", "zone"]).to_parquet(folder / "0.parquet", index=False)
    source = open_source(tmp_path, "y", weight="w", columns=["normal", "year", "zone"])
    features = table[["normal", "year", "zone"]]
    want = first_pass(open_source(features, table.y, weight=table.w))
    assert_same_pass(first_pass(source), want, 1e-12)
    assert "year" in open_source(tmp_path, "y").names
    # Of one folder alone all rows have the same year: that is no column.
    assert "year" not in open_source(tmp_path / "year=2020", "y").names


def test_only_the_columns_in_use_are_read(tmp_path) -> None:
    table = frame(50).assign(when=pd.Timestamp("2024-01-01"))
    table.to_parquet(tmp_path / "a.parquet")
    source = open_source(tmp_path / "a.parquet", "y", columns=["color", "normal"])
    assert [chunk.table.names for chunk in source.chunks()] == [("color", "normal")]
    assert first_pass(source).schema.names == ("color", "normal")


def test_the_index_that_pandas_wrote_is_no_feature(tmp_path) -> None:
    table = frame(50).set_index("key")
    table.to_parquet(tmp_path / "a.parquet")
    assert "key" not in open_source(tmp_path / "a.parquet", "y").names


def test_numbers_of_different_types_in_different_files_are_numbers(tmp_path) -> None:
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.int32())}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"a": pa.array([2.5, None], pa.float64())}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": pa.nulls(3)}), tmp_path / "2.parquet")
    column = first_pass(open_source(tmp_path)).schema.columns[0]
    assert (column.n_distinct, column.n_missing) == (3, 4)


def test_a_file_with_another_schema_is_named_before_anything_is_read(tmp_path) -> None:
    pq.write_table(pa.table({"a": [1.0], "b": [2.0]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"a": ["x"], "b": [2.0]}), tmp_path / "1.parquet")
    with pytest.raises(ValueError, match=r"column 'a' holds text in .*1.parquet, but numbers in"):
        open_source(tmp_path)
    pq.write_table(pa.table({"b": [2.0]}), tmp_path / "1.parquet")
    with pytest.raises(ValueError, match=r"1.parquet has no column 'a'; it has 'b'"):
        open_source(tmp_path)


def test_a_file_cut_short_is_named(tmp_path) -> None:
    write_folder(tmp_path, frame())
    whole = (tmp_path / "part-2.parquet").read_bytes()
    (tmp_path / "part-2.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"part-2.parquet cannot be read as Parquet .*cut short"):
        open_source(tmp_path, "y")
    # A damaged row group shows only when it is read: it is named as well.
    group = pq.ParquetFile(tmp_path / "part-1.parquet").metadata.row_group(2).column(0)
    damaged = bytearray((tmp_path / "part-1.parquet").read_bytes())
    damaged[group.data_page_offset : group.data_page_offset + 40] = b"\xff" * 40
    (tmp_path / "part-1.parquet").write_bytes(damaged)
    (tmp_path / "part-2.parquet").write_bytes(whole)
    with pytest.raises(ValueError, match=r"part-1.parquet, row group 2 cannot be read"):
        first_pass(open_source(tmp_path, "y"))


def test_a_fault_names_file_row_group_and_row(tmp_path) -> None:
    table = frame()[["normal", "y", "w"]].copy()
    table.loc[1777, "normal"] = np.inf
    write_folder(tmp_path, table)
    with pytest.raises(
        ValueError, match=r"part-3.parquet, row group 2: .*infinity.*'normal'.*at row 277 "
    ):
        first_pass(open_source(tmp_path, "y"))
    table.loc[1777, "normal"] = 0.0
    table.loc[600, "y"] = np.nan
    write_folder(tmp_path, table)
    with pytest.raises(
        ValueError, match=r"part-1.parquet, row group 0: Input y contains NaN.*row 100 "
    ):
        first_pass(open_source(tmp_path, "y"))
    table.loc[600, "y"] = 0.0
    table.loc[1999, "w"] = -1.0
    write_folder(tmp_path, table)
    with pytest.raises(ValueError, match=r"row group 3: sample_weight is negative .*row 499 "):
        first_pass(open_source(tmp_path, "y", weight="w"))


def test_an_infinity_in_a_later_pass_is_named_too(tmp_path) -> None:
    table = frame(900)[["normal", "y"]].copy()
    table.to_parquet(tmp_path / "a.parquet")
    found = first_pass(open_source(tmp_path / "a.parquet", "y"))
    table.loc[700, "normal"] = -np.inf
    table.to_parquet(tmp_path / "a.parquet")
    source = open_source(tmp_path / "a.parquet", "y", chunk_rows=64)
    with pytest.raises(ValueError, match=r"a.parquet, row group 0: .*first at row 700 "):
        for _ in encoded_chunks(source, found.schema, found.fit_columns()):
            pass


def test_a_file_that_changes_between_two_passes_is_named(tmp_path) -> None:
    table = frame(500)[["normal", "y"]]
    table.to_parquet(tmp_path / "a.parquet", row_group_size=200)
    source = open_source(tmp_path / "a.parquet", "y")
    first_pass(source)
    table.iloc[:450].to_parquet(tmp_path / "a.parquet", row_group_size=200)
    with pytest.raises(ValueError, match=r"row group 2 has 50 rows, and had 100 .* was changed"):
        list(source.chunks())
    table.iloc[:200].to_parquet(tmp_path / "a.parquet", row_group_size=200)
    with pytest.raises(ValueError, match=r"row group 2 has 0 rows, and had 100 .* was changed"):
        list(source.chunks())


def test_files_that_are_not_there_or_hold_nothing(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match="no file"):
        open_source(tmp_path / "none.parquet", "y")
    with pytest.raises(FileNotFoundError, match="holds no file"):
        open_source(tmp_path, "y")
    pq.write_table(pa.table({"a": pa.array([], pa.float64())}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="hold no row"):
        open_source(tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("a,b\n")
    with pytest.raises(ValueError, match="no row"):
        open_source(tmp_path / "a.csv")
    with pytest.raises(ValueError, match="name files of one kind"):
        open_source([tmp_path / "a.csv", tmp_path / "a.parquet"])
    with pytest.raises(ValueError, match="named twice"):
        open_source([tmp_path / "a.csv", tmp_path / "a.csv"])


def test_csv_holds_the_same_table(tmp_path) -> None:
    table = frame().drop(columns=["flag"])
    table.iloc[:900].to_csv(tmp_path / "0.csv", index=False)
    table.iloc[900:].to_csv(tmp_path / "1.csv", index=False)
    found = first_pass(open_source(tmp_path, "y", weight="w", chunk_rows=101))
    features = table.drop(columns=["y", "w"])
    assert_same_pass(found, first_pass(open_source(features, table.y, weight=table.w)), 1e-12)


def test_csv_types_are_decided_over_all_rows(tmp_path) -> None:
    n = 400_000  # some blocks of text
    late = ["5"] * (n - 1) + ["five"]
    rows = "\n".join(f"{i % 9},{i % 2 == 0},{late[i]},{i % 4}" for i in range(n - 1))
    (tmp_path / "a.csv").write_text(f"whole,flag,late,turns\n{rows}\n1.5,,five,\n")
    source = open_source(tmp_path / "a.csv")
    schema = first_pass(source).schema
    assert [type(c).__name__[:3] for c in schema.columns] == ["Num", "Cat", "Cat", "Num"]
    assert schema.columns[0].n_distinct == 10
    assert schema.columns[1].levels == (False, True)
    assert schema.columns[2].levels == ("5", "five")
    assert schema.columns[3].n_missing == 1
    with pytest.raises(ValueError, match=r"a.csv, after row \d+: cannot be read as CSV .*1.5"):
        first_pass(open_source(tmp_path / "a.csv", columns=["whole"], types={"whole": "integer"}))


def test_csv_without_names_compressed_with_tabs(tmp_path) -> None:
    with gzip.open(tmp_path / "a.tsv.gz", "wt") as file:
        file.write("1\t2.5\tx\n0\t3.5\ty\n")
    source = open_source(tmp_path / "a.tsv.gz", "label", names=["label", "a", "b"])
    (chunk,) = source.chunks()
    assert source.names == ("a", "b")
    assert chunk.y.tolist() == [1.0, 0.0]
    types = {"label": "number", "a": "number", "b": "text"}
    again = open_source(tmp_path / "a.tsv.gz", "label", names=["label", "a", "b"], types=types)
    assert again.n_rows is None
    assert first_pass(again).schema == first_pass(source).schema


def test_csv_with_a_short_line_or_a_name_twice(tmp_path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(ValueError, match=r"a.csv.*CSV.*2 columns, got 1"):
        open_source(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("a,a\n1,2\n")
    with pytest.raises(ValueError, match="Duplicate column names: 'a'"):
        open_source(tmp_path / "a.csv")


def test_scoring_needs_no_target(tmp_path) -> None:
    table = frame(300)
    table.to_parquet(tmp_path / "a.parquet", index=False)
    found = first_pass(open_source(tmp_path / "a.parquet", "y", weight="w"))
    columns = found.fit_columns()
    names = list(found.schema.names)
    later = open_source(tmp_path / "a.parquet", columns=names, chunk_rows=77)
    z = np.concatenate([c.z for c in encoded_chunks(later, found.schema, columns)])
    schema, want = in_memory(table[names], table.w.to_numpy())
    encoded = TableSchema.infer(table[names]).encode(table[names])
    for j, column in enumerate(want):
        np.testing.assert_allclose(z[:, j], column.forward(encoded[:, j]), rtol=1e-9, atol=1e-9)
    assert schema == found.schema
