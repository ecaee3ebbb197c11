"""Plugins: found without an import, loaded once, and named when they are broken."""

from __future__ import annotations

import subprocess
import sys

import pytest

from assay.errors import PluginError
from assay.plugins import INDEXES, MODELS, extensions, find_extension, load_extensions
from tests.plugins import install

FINE = "counter = []\n\n\ndef load(request):\n    return request\n"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package with a sound model, one that fails to import, and one that is not there."""
    entries = {
        MODELS: {
            "sound": "registry_fine:load",
            "broken": "registry_broken",
            "leaves": "registry_leaves",
            "absent": "registry_fine:nothing",
        }
    }
    modules = {
        "registry_fine": FINE,
        "registry_broken": "raise RuntimeError('no licence')\n",
        "registry_leaves": "raise SystemExit('bye')\n",
    }
    install(tmp_path, package="third-party", entries=entries, modules=modules)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for module in modules:
        sys.modules.pop(module, None)


def test_plugins_are_found_without_being_imported(installed):
    found = {plugin.name: plugin.package for plugin in extensions(MODELS)}
    wanted = dict.fromkeys(("absent", "broken", "leaves", "sound"), "third-party 1.0")
    assert found.items() >= wanted.items()
    assert "registry_fine" not in sys.modules
    assert not [plugin for plugin in extensions(INDEXES) if plugin.package == "third-party 1.0"]


def test_a_plugin_loads_what_its_entry_point_names(installed):
    plugin = find_extension(MODELS, "sound")
    assert plugin is not None
    assert plugin.load()("request") == "request"
    assert plugin.load() is plugin.load()
    assert find_extension(MODELS, "unknown") is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("broken", "RuntimeError: no licence"),
        ("leaves", "SystemExit: bye"),
        ("absent", "AttributeError: "),
    ],
)
def test_a_broken_plugin_names_its_package_and_the_reason(installed, name, why):
    plugin = find_extension(MODELS, name)
    assert plugin is not None
    with pytest.raises(PluginError, match=why) as caught:
        plugin.load()
    assert "third-party 1.0" in str(caught.value)
    assert f"offers {name!r}" in str(caught.value)


def test_loading_a_group_goes_past_broken_plugins(installed):
    errors = load_extensions(MODELS)
    assert sum("third-party 1.0" in str(error) for error in errors) == 3
    sound = find_extension(MODELS, "sound")
    assert sound is not None
    assert sound.load()(1) == 1


def test_one_name_from_two_packages_is_refused(installed, tmp_path):
    install(
        tmp_path, package="other", entries={MODELS: {"sound": "registry_fine:load"}}, modules={}
    )
    sys.path.append(str(tmp_path / "new"))  # another path is another look
    try:
        with pytest.raises(PluginError, match=r"offered by other 1\.0 and third-party 1\.0"):
            find_extension(MODELS, "sound")
    finally:
        sys.path.remove(str(tmp_path / "new"))


def test_start_up_does_not_look_for_plugins():
    code = "import sys, assay; assay.parse('nDCG@10'); print('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
