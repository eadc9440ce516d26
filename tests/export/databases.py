"""Real databases for the tests of queries: each runs a query on a table and gives rows back."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

TYPES = {"number": "double precision", "text": "text", "truth": "boolean"}


def values(table: pd.DataFrame) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the SQL type of each column, and the rows with None where missing."""
    kinds, columns = [], []
    for name in table:
        column = table[name].astype(object)
        present = column.dropna()
        if present.map(lambda v: isinstance(v, bool)).all():
            kinds.append("truth")
        else:
            kinds.append("text" if present.map(lambda v: isinstance(v, str)).all() else "number")
        columns.append([None if pd.isna(v) else v for v in column])
    return kinds, list(zip(*columns, strict=True))


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def run_duckdb(table: pd.DataFrame, name: str, query: str) -> pd.DataFrame:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.register("source", table)
        connection.execute(f"CREATE TABLE {quoted(name)} AS SELECT * FROM source")
        found: pd.DataFrame = connection.execute(query).df()
    return found


def run_sqlite(table: pd.DataFrame, name: str, query: str) -> pd.DataFrame:
    kinds, rows = values(table)
    types = {"number": "REAL", "text": "TEXT", "truth": "INTEGER"}
    columns = ", ".join(f"{quoted(c)} {types[k]}" for c, k in zip(table, kinds, strict=True))
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(f"CREATE TABLE {quoted(name)} ({columns})")
        marks = ", ".join("?" * len(kinds))
        connection.executemany(f"INSERT INTO {quoted(name)} VALUES ({marks})", rows)
        cursor = connection.execute(query)
        return pd.DataFrame(cursor.fetchall(), columns=[d[0] for d in cursor.description])
    finally:
        connection.close()


def binaries() -> Path | None:
    places = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    places += [Path(found).parent for found in [shutil.which("initdb")] if found]
    return next((place for place in places if (place / "initdb").exists()), None)


@contextmanager
def postgres_server() -> Iterator[str]:
    """Start a server of its own in a folder of its own; PostgreSQL refuses to run as root."""
    psycopg = pytest.importorskip("psycopg")
    found = binaries()
    if found is None:
        pytest.skip("no PostgreSQL server is installed")
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    prefix = as_user if os.geteuid() == 0 else []
    if prefix and shutil.which("setpriv") is None:
        pytest.skip("PostgreSQL does not run as root, and setpriv is not there")
    folder = Path(tempfile.mkdtemp(prefix="oakgp-postgres-"))
    try:
        if prefix:
            shutil.chown(folder, "postgres", "postgres")
        run = [*prefix, str(found / "initdb"), "-D", str(folder / "db"), "-U", "tester"]
        made = subprocess.run([*run, "--auth=trust", "-E", "UTF8"], capture_output=True, cwd="/")
        if made.returncode:
            pytest.skip(f"initdb failed: {made.stderr.decode()[-300:]}")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}"]
        server = subprocess.Popen(
            [*prefix, str(found / "postgres"), "-D", str(folder / "db"), "-p", str(port), *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
        )
        try:
            address = f"host=127.0.0.1 port={port} user=tester dbname=postgres"
            for _ in range(100):
                try:
                    psycopg.connect(address).close()
                    break
                except psycopg.OperationalError:
                    if server.poll() is not None:
                        pytest.skip("the PostgreSQL server did not start")
                    __import__("time").sleep(0.1)
            yield address
        finally:
            server.terminate()
            server.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_postgres(address: str, table: pd.DataFrame, name: str, query: str) -> pd.DataFrame:
    import psycopg

    kinds, rows = values(table)
    columns = ", ".join(f"{quoted(c)} {TYPES[k]}" for c, k in zip(table, kinds, strict=True))
    with psycopg.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TEMPORARY TABLE {quoted(name)} ({columns})")
        marks = ", ".join(["%s"] * len(kinds))
        cursor.executemany(f"INSERT INTO {quoted(name)} VALUES ({marks})", rows)
        cursor.execute(query)
        assert cursor.description is not None
        return pd.DataFrame(cursor.fetchall(), columns=[d.name for d in cursor.description])
