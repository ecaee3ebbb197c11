"""The command that installs an extra is true for a checkout, an archive and a published package."""

from __future__ import annotations

import json
from importlib import metadata
from types import SimpleNamespace

import pytest

from assay.errors import MissingPackageError, install_command


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, 'pip install "assay-eval[yaml]"'),
        (
            {"url": "file:///home/me/src", "dir_info": {}},
            'pip install ".[yaml]" (in the source folder of Assay)',
        ),
        (
            {"url": "file:///home/me/src", "dir_info": {"editable": True}},
            'pip install -e ".[yaml]" (in the source folder of Assay)',
        ),
        (
            {"url": "https://host/a.git", "vcs_info": {"vcs": "git"}},
            'pip install "assay-eval[yaml] @ git+https://host/a.git"',
        ),
        (
            {"url": "file:///tmp/assay_eval-1-py3-none-any.whl", "archive_info": {}},
            'pip install "assay_eval-1-py3-none-any.whl[yaml]"',
        ),
    ],
)
def test_the_command_names_the_source_of_this_installation(monkeypatch, origin, command):
    text = None if origin is None else json.dumps(origin)
    made = SimpleNamespace(read_text=lambda name: text if name == "direct_url.json" else None)
    monkeypatch.setattr(metadata, "distribution", lambda name: made)
    assert install_command("yaml") == command
    assert command in str(MissingPackageError("yaml", "YAML", "yaml"))
    assert "/home/me" not in install_command("yaml")


def test_a_source_folder_on_the_path_is_a_checkout(monkeypatch):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", absent)
    assert install_command("yaml").startswith('pip install ".[yaml]"')
