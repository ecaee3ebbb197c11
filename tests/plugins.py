"""A small installed package for tests: a module and the metadata that declares its entry points."""

from __future__ import annotations

from pathlib import Path


def install(
    folder: Path, *, package: str, entries: dict[str, dict[str, str]], modules: dict[str, str]
) -> Path:
    """Write a package into a folder; with the folder on the path it counts as installed.

    `entries` is {group: {name: "module:attribute"}}, `modules` is {module: its code}.
    """
    for module, code in modules.items():
        (folder / f"{module}.py").write_text(code, encoding="utf-8")
    info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = []
    for group, objects in entries.items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in objects.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder
