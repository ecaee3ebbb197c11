"""Networks of patches: how patches are cut, and what onnxruntime and torch are given."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cv2")
pytest.importorskip("onnxruntime")

from assay.errors import FormatError, InputError, StorageError, UsageError
from assay.vision import experiment_from, run_experiment
from assay.vision.descriptors import (
    PatchNetwork,
    PatchOptions,
    describe,
    describe_patches,
    load_network,
)
from assay.vision.keypoints import Keypoints
from assay.vision.opencv_features import cut_patches
from tests.models.onnx_model import FLOAT, field, node, tensor, value
from tests.vision.small_scenes import small_scenes


def write_network(
    path: Path, *, side: int = 8, channels: int = 1, width: int = 6, batch: Any = "batch"
) -> Any:
    """tanh(patch · matrix), samples × width, as a real ONNX file; gives the matrix."""
    matrix = np.random.default_rng(1).normal(size=(channels * side * side, width))
    graph = (
        field(1, node("Flatten", ["patches"], "flat"))
        + field(1, node("MatMul", ["flat", "matrix"], "mixed"))
        + field(1, node("Tanh", ["mixed"], "rows"))
        + field(2, "patches")
        + field(5, tensor("matrix", matrix))
        + field(11, _sized("patches", batch, channels, side, side))
        + field(12, value("rows", FLOAT, "batch", "width"))
    )
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13)))
    return matrix.astype(np.float32)


def _sized(name: str, *dims: int | str) -> bytes:
    """A float tensor; a dimension is a number (field 1) or has a name (field 2)."""
    shape = b"".join(field(1, field(1 if isinstance(dim, int) else 2, dim)) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, FLOAT) + field(2, shape)))


def _ramp(height: int = 120, width: int = 160) -> Any:
    """Brightness that grows with x, and colours that differ."""
    x = np.broadcast_to(np.arange(width), (height, width))
    return np.stack([x, x + 20, x + 40], axis=2).astype(np.uint8)


def test_a_patch_has_the_side_and_the_direction_of_its_keypoint() -> None:
    points = Keypoints.of([[60.25, 60.0]] * 3, size=[4.0, 4.0, 8.0], angle=[-1.0, 90.0, 0.0])
    upright, turned, large = cut_patches(_ramp(), points, side=8, magnification=4.0)[..., 0]
    # 4 · (4 / 2) = 8 pixels of the image: one for each of the patch, around (60.25, 60)
    np.testing.assert_array_equal(upright[0], np.rint(np.arange(8) - 3.5 + 60.25))
    # The x axis of a patch at 90° runs along the image's y, on which nothing changes.
    assert (np.ptp(turned, axis=1) <= 1).all()
    assert turned[0, 0] > turned[-1, 0]
    assert large[0, -1] - large[0, 0] == pytest.approx(2 * (upright[0, -1] - upright[0, 0]), abs=1)
    same = cut_patches(_ramp(), points, side=8, magnification=4.0, upright=True)[..., 0]
    np.testing.assert_array_equal(same[1], upright)


def test_large_patches_come_from_smaller_copies_of_the_image() -> None:
    stripes = np.zeros((256, 256), np.uint8)
    stripes[:, ::2] = 255
    [patch] = cut_patches(stripes, Keypoints.of([[128.0, 128.0]], size=32.0), side=16)
    assert np.ptp(patch) < 40  # single pixels of every second column would be black or white


@pytest.mark.parametrize("pixels", ["unit", "byte", "standard"])
def test_an_onnx_network_gives_what_its_arithmetic_says(tmp_path: Path, pixels: str) -> None:
    matrix = write_network(tmp_path / "net.onnx")
    image = small_scenes()[0].image(1)
    points = Keypoints.of([[50.0, 60.0], [70.5, 40.25], [90.0, 90.0]], size=6.0, angle=30.0)
    options = {"pixels": pixels, "magnification": 5.0, "batch": 2}
    found = describe(image, points, f"onnx:{tmp_path / 'net.onnx'}", options=options)
    import cv2

    cut = cut_patches(image, points, side=8, magnification=5.0)
    flat = np.stack([cv2.cvtColor(one, cv2.COLOR_BGR2GRAY) for one in cut]).reshape(3, -1)
    wanted = flat.astype(np.float64)
    if pixels == "unit":
        wanted = wanted / 255
    if pixels == "standard":
        wanted = (wanted - wanted.mean(axis=1)[:, None]) / wanted.std(axis=1)[:, None]
    np.testing.assert_allclose(found.vectors, np.tanh(wanted @ matrix), atol=2e-4)
    assert found.kind == "float"


def test_colours_are_red_green_blue_and_a_fixed_batch_is_filled_up(tmp_path: Path) -> None:
    matrix = write_network(tmp_path / "net.onnx", channels=3, batch=4)
    patches = np.random.default_rng(0).integers(0, 255, (5, 8, 8, 3)).astype(np.uint8)
    found = describe_patches(f"onnx:{tmp_path / 'net.onnx'}", patches, {})
    rgb = patches[..., ::-1].transpose(0, 3, 1, 2).reshape(5, -1) / 255
    np.testing.assert_allclose(found, np.tanh(rgb @ matrix), atol=1e-4)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    write_network(tmp_path / "net.onnx")
    spec = f"onnx:{tmp_path / 'net.onnx'}"
    patches = np.zeros((1, 8, 8, 3), np.uint8)
    for options, words in (
        ({"sied": 8}, "Did you mean side"),
        ({"side": 16}, "side 8, not 16"),
        ({"channels": 2}, "1 or 3"),
        ({"orientation": "up"}, "orientation"),
        ({"magnification": 0}, "above 0"),
    ):
        with pytest.raises(UsageError, match=words):
            describe_patches(spec, patches, options)
    with pytest.raises(StorageError, match="no file"):
        load_network("onnx:absent.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"no network")
    with pytest.raises(FormatError, match="cannot be loaded"):
        load_network(f"onnx:{tmp_path / 'bad.onnx'}")
    flat = PatchNetwork("flat", lambda x: x.sum())
    failing = PatchNetwork("failing", lambda x: 1 / 0)
    from assay.vision import descriptors

    how = PatchOptions(side=8, channels=1)
    with pytest.raises(FormatError, match="Return one row of floats each"):
        descriptors.run_network(flat, patches, how)
    with pytest.raises(InputError, match="failing failed: ZeroDivisionError"):
        descriptors.run_network(failing, patches, how)


def test_a_network_that_changes_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    write_network(path)
    first = load_network(f"onnx:{path}")
    assert load_network(f"onnx:{path}") is first
    write_network(path, width=5)
    assert load_network(f"onnx:{path}") is not first


def test_an_experiment_with_a_network(tmp_path: Path) -> None:
    write_network(tmp_path / "net.onnx", side=16, width=64)
    found = run_experiment(
        experiment_from(
            {
                "dataset": {"path": "unused"},
                "keypoints": {"detector": "orb", "border": 20, "strongest": 30},
                "descriptors": [
                    {
                        "name": "net",
                        "type": f"onnx:{tmp_path / 'net.onnx'}",
                        "options": {"magnification": 3, "pixels": "standard"},
                    }
                ],
            }
        ),
        scenes=small_scenes(),
    )
    [result] = found.results
    assert result.mean()["AP"] > 5 * result.chance()["AP"]
    assert {"load", "describe"} <= set(result.timings)


def test_a_script_of_torch_is_run_without_gradients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in with torch's names; the next test takes torch itself, where it is installed."""
    (tmp_path / "net.pt").write_bytes(b"x")
    seen: list[Any] = []

    class Module:
        def eval(self) -> Module:
            return self

        def __call__(self, tensor: Any) -> Any:
            seen.append(tensor.shape)
            rows = tensor.reshape(len(tensor), -1)[:, :4]
            return SimpleNamespace(numpy=lambda: rows)

    torch = SimpleNamespace(
        jit=SimpleNamespace(load=lambda file, map_location: Module()),
        inference_mode=nullcontext,
        from_numpy=lambda array: array,
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    patches = np.full((3, 65, 65, 3), 51, np.uint8)
    found = describe_patches(f"torch:{tmp_path / 'net.pt'}", patches, {})
    assert seen == [(3, 1, 32, 32)]
    np.testing.assert_allclose(found, 0.2, atol=1e-6)


def test_torch_itself(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 5))
    torch.jit.script(module).save(str(tmp_path / "net.pt"))
    patches = np.random.default_rng(0).integers(0, 255, (3, 8, 8, 3)).astype(np.uint8)
    found = describe_patches(f"torch:{tmp_path / 'net.pt'}", patches, {"side": 8})
    assert found.shape == (3, 5)
