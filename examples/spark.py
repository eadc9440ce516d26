"""The first pass and a sum over all rows on Spark: what `oakgp.distributed` does on Dask.

Needs pyspark. Run it with ``python examples/spark.py``; it starts a local Spark of two threads.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from oakgp.stream import SketchPlan, encode, open_source, summary
from oakgp.stream.sums import Sums, add

Frames = Iterator[pd.DataFrame]


def sketch_rows(plan: SketchPlan, target: str) -> Callable[[Frames], Frames]:
    """Return what Spark maps over its partitions: rows in, one sketch out."""

    def run(frames: Frames) -> Frames:
        sketch = plan.empty()
        for frame in frames:
            if len(frame):
                for chunk in open_source(frame, target).chunks(ahead=0):
                    sketch.update(chunk)
        # Within the cluster, as Spark sends functions; a model file never holds a pickle.
        yield pd.DataFrame({"bytes": [pickle.dumps(sketch)]})

    return run


def sum_rows(found: Any, columns: Any, statistic: Any, target: str) -> Callable[[Frames], Frames]:
    """Return what Spark maps over its partitions: rows in, one set of sums out."""
    schema = found.schema

    def run(frames: Frames) -> Frames:
        total: Sums | None = None
        for frame in frames:
            if len(frame):
                for chunk in open_source(frame, target).chunks(ahead=0):
                    total = add(total, statistic(encode(chunk, schema, columns)))
        if total is not None:
            file = io.BytesIO()
            np.savez(file, **total)
            yield pd.DataFrame({"bytes": [file.getvalue()]})

    return run


def normal_equations(chunk: Any) -> Sums:
    """Return Z^T Z and Z^T y of a chunk."""
    z = np.nan_to_num(chunk.z)
    return {"gram": z.T @ z, "moment": z.T @ chunk.y}


def main() -> None:
    """Compare Spark's answer with that of one process."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    rng = np.random.default_rng(0)
    n = 5000
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n).astype(float),
            "income": rng.lognormal(3.0, 0.5, n),
            "region": rng.choice(["north", "south", "west"], n),
        }
    )
    table["spend"] = 0.02 * table.age + (table.region == "south") + rng.normal(size=n)
    rows = spark.createDataFrame(table).repartition(5)

    # The plan needs names and types only: a few rows have them.
    plan = SketchPlan.of(open_source(rows.limit(5).toPandas(), "spend"))
    sketch = plan.empty()
    for row in rows.mapInPandas(sketch_rows(plan, "spend"), "bytes binary").collect():
        sketch.merge(pickle.loads(row.bytes))
    found = summary(sketch, plan)
    columns = found.fit_columns()

    total: Sums | None = None
    work = sum_rows(found, columns, normal_equations, "spend")
    for row in rows.mapInPandas(work, "bytes binary").collect():
        with np.load(io.BytesIO(row.bytes), allow_pickle=False) as sums:
            total = add(total, dict(sums))
    spark.stop()

    from oakgp.stream import first_pass, sum_over

    source = open_source(table, "spend")
    alone = first_pass(source)
    want = sum_over(source, alone.schema, alone.fit_columns(), normal_equations)
    assert total is not None
    worst = max(float(np.abs(total[k] / want[k] - 1.0).max()) for k in want)
    print("same schema:", found.schema == alone.schema)
    print(f"largest relative difference of the sums: {worst:.0e}")


if __name__ == "__main__":
    main()
