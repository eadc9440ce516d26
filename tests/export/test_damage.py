"""Files that are not models, or no longer: each is refused with one clear error, none runs code."""

from __future__ import annotations

import json
import pickle
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from tests.export.models import fitted, frame, model, rows

import oakgp
from oakgp import OAKRegressor
from oakgp.export import ModelFileError
from oakgp.export.content import describe

Json = dict[str, Any]
Tensors = dict[str, torch.Tensor]
MEMBERS = ("model.json", "tensors.safetensors")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.oakgp"


@cache
def whole() -> OAKRegressor:
    return fitted(measure={"area": "gaussian"}, engine="sparse", n_inducing=8).truncate(n_terms=3)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small model file."""
    path = tmp_path_factory.mktemp("whole") / "m.oakgp"
    whole().save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def parts(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> tuple[Json, Tensors]:
    path = tmp_path_factory.mktemp("parts") / "m.oakgp"
    path.write_bytes(data)
    with zipfile.ZipFile(path) as archive:
        description, tensors = map(archive.read, MEMBERS)
    return json.loads(description), safetensors.torch.load(tensors)


def write(path: Path, description: object, tensors: Tensors | bytes, **extra: bytes) -> None:
    """Write a file as `save` does, of any content."""
    text = description if isinstance(description, (str, bytes)) else json.dumps(description)
    body = tensors if isinstance(tensors, bytes) else safetensors.torch.save(tensors)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MEMBERS[0], text, zipfile.ZIP_DEFLATED)
        archive.writestr(MEMBERS[1], body)
        for name, content in extra.items():
            archive.writestr(name, content)


def refused(path: Path, match: str | None = None) -> None:
    with pytest.raises(ModelFileError, match=match) as caught:
        oakgp.load(path)
    assert str(caught.value).startswith(str(path))  # says which file


# Files of other kinds.

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489")


class Payload:
    """Writes a file when it is unpickled."""

    def __init__(self, target: str) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Callable[[str, str], Any], tuple[str, str]]:
        return open, (self.target, "w")


@pytest.mark.parametrize(
    "content", [b"", b"PK", PNG, b"area,heat\n1,gas\n", b"{}", b"\0" * 5000, b"PK\x05\x06" * 9]
)
def test_foreign_files_are_refused(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    refused(path, "not an oakgp model file, or a damaged one")


def test_a_missing_file_is_no_damaged_one(path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="m.oakgp: no such model file"):
        oakgp.load(path)


def test_a_directory_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, "not a file")


def test_other_zip_archives_are_refused(path: Path, parts: tuple[Json, Tensors]) -> None:
    for members in ({}, {"readme.txt": b"hello"}, {"model.json": b"{}"}):
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        refused(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.json", json.dumps(parts[0]))
    refused(path, "tensors.safetensors")


def test_a_pickle_is_refused_and_not_run(
    path: Path, tmp_path: Path, parts: tuple[Json, Tensors]
) -> None:
    trace = tmp_path / "it ran"
    payload = pickle.dumps(Payload(str(trace)))
    path.write_bytes(payload)
    refused(path)
    write(path, payload, parts[1])
    refused(path)
    write(path, parts[0], payload)
    refused(path)
    write(path, *parts, **{"data.pkl": payload, "__main__.py": b"raise SystemExit"})
    assert oakgp.load(path).predict(rows()).shape == (9,)  # other members are not looked at
    assert not trace.exists()


def test_names_that_climb_out_of_the_archive_are_harmless(
    tmp_path: Path, parts: tuple[Json, Tensors]
) -> None:
    path = tmp_path / "inner" / "m.oakgp"
    path.parent.mkdir()
    write(path, *parts, **{"../escaped.txt": b"x", "/escaped.txt": b"x"})
    assert oakgp.load(path).n_features_in_ == 5
    assert [p.name for p in tmp_path.iterdir()] == ["inner"]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../model.json", json.dumps(parts[0]))
        archive.writestr("../tensors.safetensors", safetensors.torch.save(parts[1]))
    refused(path)
    assert [p.name for p in tmp_path.iterdir()] == ["inner"]


# Damage to the bytes.


def test_truncated_files_are_refused(path: Path, data: bytes) -> None:
    for length in {*range(0, len(data), 41), *range(len(data) - 60, len(data))}:
        path.write_bytes(data[:length])
        refused(path)


def test_a_flipped_bit_is_an_error_or_changes_nothing(path: Path, data: bytes) -> None:
    """Dates and the like in the zip's directory may change; the model may not."""
    rng = np.random.default_rng(0)
    truth, tensors = describe(whole())
    truth = json.loads(json.dumps(truth))
    spots = {*range(0, len(data), 17), *range(80), *range(len(data) - 260, len(data))}
    read = 0
    for at in sorted(spots):
        damaged = bytearray(data)
        damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            loaded = oakgp.load(path)
        except ModelFileError:
            continue
        read += 1
        found, arrays = describe(loaded)
        assert json.loads(json.dumps(found)) == truth
        assert all(tensors[k].numpy().tobytes() == arrays[k].numpy().tobytes() for k in tensors), at
    assert 0 < read < 0.2 * len(spots)


def test_bytes_before_or_after_the_archive_do_no_harm(path: Path, data: bytes) -> None:
    """A download page around the file is refused or read rightly, as zip files are."""
    for damaged in (b"junk" + data, data + b"junk", data + data):
        path.write_bytes(damaged)
        try:
            loaded = oakgp.load(path)
        except ModelFileError:
            continue
        np.testing.assert_array_equal(loaded.predict(rows()), whole().predict(rows()))


# Sizes that are claimed.


def peak_of_loading(path: Path) -> int:
    tracemalloc.start()
    try:
        refused(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_zip_bomb_is_not_inflated(path: Path, parts: tuple[Json, Tensors]) -> None:
    bomb = b" " * (1 << 26)
    write(path, bomb + json.dumps(parts[0]).encode(), parts[1])
    assert path.stat().st_size < 100_000
    assert peak_of_loading(path) < len(bomb) / 10
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MEMBERS[0], json.dumps(parts[0]))
        archive.writestr(MEMBERS[1], bomb)
    refused(path, "not stored as oakgp does")
    assert peak_of_loading(path) < len(bomb) / 10


def test_absurd_sizes_in_the_directory_are_refused(path: Path, data: bytes) -> None:
    for member in MEMBERS:
        damaged = bytearray(data)
        at = data.rindex(b"PK\x01\x02", 0, data.rindex(member.encode()))
        damaged[at + 24 : at + 28] = (0xFFFFFFF0).to_bytes(4, "little")  # size when unpacked
        path.write_bytes(damaged)
        assert peak_of_loading(path) < 5_000_000


def test_absurd_shapes_of_tensors_are_refused(path: Path, parts: tuple[Json, Tensors]) -> None:
    header = json.dumps(
        {"anchors": {"dtype": "F64", "shape": [2**40, 2**40], "data_offsets": [0, 8]}}
    ).encode()
    write(path, parts[0], len(header).to_bytes(8, "little") + header + bytes(8))
    assert peak_of_loading(path) < 5_000_000
    write(path, parts[0], (2**62).to_bytes(8, "little") + header)
    refused(path)


def test_absurd_numbers_and_depths_in_the_json_are_refused(
    path: Path, parts: tuple[Json, Tensors]
) -> None:
    text = json.dumps(parts[0])
    for old, new in {
        '"n_rows": 40': '"n_rows": ' + "9" * 5000,
        '"center": ': '"center": 1e999, "was": ',
        '"dropped_variance": ': '"dropped_variance": NaN, "was": ',
        '"scale": ': '"scale": -Infinity, "was": ',
        '"settings": ': '"settings": ' + "[" * 100_000 + "]" * 100_000 + ', "was": ',
    }.items():
        assert old in text, old
        write(path, text.replace(old, new, 1), parts[1])
        refused(path)
    measure = json.dumps(parts[0]["columns"][0]["measure"])
    nested = '{"kind": "missing_atom", "share": 0.5, "base": ' * 5000 + measure + "}" * 5000
    write(path, text.replace(measure, nested, 1), parts[1])
    refused(path)


# Values that are well-formed and wrong.


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths to all entries, but of long lists the ends only."""
    if isinstance(value, dict):
        for key in value:
            yield (*at, key)
            yield from places(value[key], (*at, key))
    if isinstance(value, list):
        for k in sorted({0, len(value) - 1} & set(range(len(value)))):
            yield (*at, k)
            yield from places(value[k], (*at, k))


def holder(value: Any, at: tuple[Any, ...]) -> Any:
    for key in at[:-1]:
        value = value[key]
    return value


def must_load_or_be_refused(path: Path) -> bool:
    """Load a file; what is accepted must answer, since it is too late to complain then."""
    try:
        loaded = oakgp.load(path)
    except ModelFileError:
        return False
    mean, sd = loaded.predict(rows(), return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(sd).all()
    assert str(loaded.verdict_)
    return True


WRONG = (None, True, "x", -1, 0.5, 1e300, [], ["x"], [[-1]], {}, {"kind": "x"})


def test_every_entry_of_the_json_is_checked(path: Path, parts: tuple[Json, Tensors]) -> None:
    accepted = []
    for at in places({**parts[0], "settings": {}}):
        for wrong in WRONG:
            description = deepcopy(parts[0])
            holder(description, at)[at[-1]] = wrong
            write(path, description, parts[1])
            if must_load_or_be_refused(path):
                accepted.append((at, wrong))
    kinds = {type(wrong) for at, wrong in accepted if at[0] not in ("written_by", "settings")}
    assert dict not in kinds
    negative = {at[0] for at, wrong in accepted if wrong == -1}
    assert negative <= {"written_by", "center", "facts", "columns", "schema"}
    assert not any(
        {"noise", "scale", "share", "counts", "n_rows"} & {*at} for at, w in accepted if w == -1
    )


def test_every_entry_of_the_json_is_needed(path: Path, parts: tuple[Json, Tensors]) -> None:
    missed = []
    for at in places(parts[0]):
        description = deepcopy(parts[0])
        inside = holder(description, at)
        if isinstance(inside, dict):
            del inside[at[-1]]
            write(path, description, parts[1])
            if must_load_or_be_refused(path):
                missed.append(at)
    # A setting or a fact that an old file does not know has its default.
    assert {at[0] for at in missed} == {"settings", "written_by", "facts"}
    facts = {at[1] for at in missed if at[0] == "facts"}
    assert facts == {"n_columns", "reason"}


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (("format",), "other-model", "does not say 'oakgp-model'"),
        (("version",), 2, "it has format 2, written by oakgp '.*'; .* up to 1: update it"),
        (("version",), True, "it has format True"),
        (("version",), 0, "it has format 0"),
        (("estimator",), "OAKOracle", "unknown estimator 'OAKOracle'; update oakgp"),
        (("settings", "speed"), 3, "unexpected keyword argument 'speed'"),
        (("settings", "kernel"), {"__kernel__": "magic"}, "unknown kernel 'magic'"),
        (("settings", "kernel"), {"__exec__": "magic"}, "object with \\['__exec__'\\]"),
        (("columns", 0, "kernel"), {"name": "magic"}, "unknown kernel 'magic'"),
        (("columns", 0, "measure"), {"kind": "magic"}, "unknown measure kind 'magic'"),
        (("columns", 0, "flow"), {"kind": "magic"}, "Unknown flow kind 'magic'"),
        (("columns", 0, "flow"), None, "column 'area' does not fit its kernel, measure or flow"),
        (("columns", 0, "name"), "size", "features are not the schema's active columns"),
        (("schema", "columns", 0, "kind"), "magic", "unknown kind 'magic'"),
        (("schema", "columns", 1, "name"), "area", "no names of their own"),
        (("schema", "columns", 2, "levels"), ["gas"], "levels of column 'heat'"),
        (("kernel", "n_features"), 4, "the kernel has 4 features, but there are 5 columns"),
        (("kernel", "blocks"), [], "the constant is not among the terms"),
        (("kept",), [[0]], "the constant is not among the kept terms"),
        (("kept",), [[], [0, 1, 2]], "'kept' holds .0, 1, 2., not a term of the model"),
        (("forced",), [[1, 0]], "'forced' holds .1, 0., not increasing"),
        (("forced",), [[9]], "'forced' holds .9., not a list of feature numbers below 5"),
        (("feature_names_in",), ["area"], "there is not one name for each column"),
        (("scale",), 0, "not positive"),
        (("center",), "1", "'center' holds '1', not a finite number"),
        (("facts", "notes"), "none", "'notes' holds 'none', not list"),
        (("dropped_variance",), 1.5, "the dropped variance is no share"),
    ],
)
def test_errors_name_what_is_wrong(
    at: tuple[Any, ...], value: object, message: str, path: Path, parts: tuple[Json, Tensors]
) -> None:
    description = deepcopy(parts[0])
    holder(description, at)[at[-1]] = value
    write(path, description, parts[1])
    refused(path, message)


def test_flows_that_do_not_increase_are_refused(path: Path, parts: tuple[Json, Tensors]) -> None:
    description = deepcopy(parts[0])
    knots = description["columns"][0]["flow"]["knots"]
    knots[3], knots[4] = knots[4], knots[3]
    write(path, description, parts[1])
    refused(path, "the flow of column 'area' does not increase")
    description["columns"][0]["flow"] = {"kind": "none", "center": 0.0, "scale": -1.0}
    write(path, description, parts[1])
    refused(path, "'area' does not fit")


def with_tensor(tensors: Tensors, name: str, change: Callable[[Any], Any]) -> Tensors:
    return {**tensors, name: change(tensors[name].clone())}


def spoiled(value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        tensor.view(-1)[-1] = value
        return tensor

    return change


def test_every_tensor_is_checked(path: Path, parts: tuple[Json, Tensors]) -> None:
    description, tensors = parts
    changes: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "shape": lambda t: torch.cat([t.reshape(-1), t.reshape(-1)]),
        "dimension": lambda t: t[None],
        "empty": lambda t: t.new_zeros(0),
        "float32": lambda t: t.float(),
        "int64": lambda t: t.long(),
        "infinite": spoiled(float("inf")),
        "NaN": spoiled(float("nan")),
        "negative": spoiled(-1.0),
    }
    free = {"negative": {"anchors", "mean_weights", "whitener", "mixing_0", "mixing_1", "mixing_2"}}
    free["NaN"] = {"anchors"}
    for name in tensors:
        for what, change in changes.items():
            write(path, description, with_tensor(tensors, name, change))
            if name in free.get(what, ()):
                assert must_load_or_be_refused(path)
            else:
                refused(path, "tensor|anchors")
        write(path, description, {k: t for k, t in tensors.items() if k != name})
        refused(path)
    write(path, description, {**tensors, "payload": torch.zeros(3)})
    refused(path, "missing or too many: payload")


def test_float32_models_are_read_as_such(path: Path, parts: tuple[Json, Tensors]) -> None:
    write(path, parts[0], {name: tensor.float() for name, tensor in parts[1].items()})
    mean = oakgp.load(path).predict(rows())
    np.testing.assert_allclose(mean, whole().predict(rows()), atol=1e-3)


# Responses other than Gaussian.


@pytest.fixture(scope="module", params=["three classes", "varying noise"])
def others(request: pytest.FixtureRequest) -> tuple[Json, Tensors]:
    description, tensors = describe(model(request.param))
    return {"format": "oakgp-model", "version": 1, **json.loads(json.dumps(description))}, tensors


def answers_or_is_refused(path: Path) -> bool:
    try:
        loaded = oakgp.load(path)
    except ModelFileError:
        return False
    found = getattr(loaded, "predict_proba", loaded.predict)(rows())
    assert np.isfinite(found).all()
    return True


def test_every_entry_of_a_response_is_checked(path: Path, others: tuple[Json, Tensors]) -> None:
    given, tensors = others
    for key in ("response", "classes"):
        for at in places({key: given[key]}):
            for wrong in WRONG:
                description = deepcopy(given)
                holder(description, at)[at[-1]] = wrong
                write(path, description, tensors)
                if answers_or_is_refused(path):
                    found = (at[-1] in ("center", "scale"), wrong == holder(given, at)[at[-1]])
                    assert any(found) or at[-1] in ("kept", 0, 1, 2), (at, wrong)
            description = deepcopy(given)
            inside = holder(description, at)
            if isinstance(inside, dict):
                del inside[at[-1]]
                write(path, description, tensors)
                refused(path)


def test_every_tensor_of_a_response_is_checked(path: Path, others: tuple[Json, Tensors]) -> None:
    description, tensors = others
    for name in [name for name in tensors if "." in name]:
        write(path, description, {k: t for k, t in tensors.items() if k != name})
        refused(path)
        for change in (lambda t: t[None], lambda t: t.float(), spoiled(float("inf"))):
            if tensors[name].numel():
                write(path, description, with_tensor(tensors, name, change))
                refused(path)
    for name in ("response.payload", "latent1.payload", "latent9.levels"):
        write(path, description, {**tensors, name: torch.zeros(3)})
        refused(path)


def test_a_model_of_other_columns_is_refused(path: Path, parts: tuple[Json, Tensors]) -> None:
    """Two halves of two sound files do not make a model."""
    other = fitted(frame()[["area", "heat", "new"]])
    _, tensors = describe(other)
    write(path, parts[0], tensors)
    refused(path)
