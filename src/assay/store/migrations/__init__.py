"""The schemas of a store: which one it has, which ones are known, and upgrades between them.

The schemas are known by the names of their scripts: Alembic is imported only for an upgrade. A new
schema is a script in `versions`, and the same change in each `newest_….sql`; a test compares them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect, text

from assay.errors import StorageError, need

__all__ = [
    "VERSION_TABLE",
    "create",
    "known_versions",
    "newest_version",
    "no_version_error",
    "upgrade",
    "version_of",
]

# A name of its own, so that the store may share a database with other programs.
VERSION_TABLE: Final = "assay_schema"
_SCRIPTS: Final = Path(__file__).parent


def known_versions() -> list[str]:
    """All schemas, oldest first.

    >>> known_versions()[0]
    '0001'
    """
    names = (path.name for path in (_SCRIPTS / "versions").glob("v*.py"))
    return sorted(found[1] for found in map(re.compile(r"v(\d{4})_").match, names) if found)


def newest_version() -> str:
    """The schema that this program writes."""
    return known_versions()[-1]


def version_of(connection: Connection) -> str | None:
    """The schema of a store; None where there is none yet."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    if found is None:
        raise no_version_error(f"The table {VERSION_TABLE}")
    return str(found)


def no_version_error(place: object) -> StorageError:
    """The table of the schema is there, and empty."""
    return StorageError(
        f"{place} does not say which schema the store has: it is damaged. Restore a backup."
    )


def create(connection: Connection) -> None:
    """Make a store of the newest schema at once: it equals what all upgrades make.

    All inside the transaction that the connection is in.
    """
    script = (_SCRIPTS / f"newest_{connection.dialect.name}.sql").read_text(encoding="utf-8")
    plain = connection.execution_options(no_parameters=True)
    for statement in script.split(";\n\n"):  # triggers have semicolons inside
        plain.exec_driver_sql(statement)


def upgrade(connection: Connection, version: str | None = None) -> None:
    """Upgrade the store to a schema, the newest unless another is named.

    All inside the transaction that the connection is in: a kill on the way changes nothing.
    """
    need("alembic", "a store of an older schema", "store")
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    steps = ScriptDirectory(str(_SCRIPTS))._upgrade_revs
    target = version or newest_version()
    options = {
        "fn": lambda now, _: steps(target, now),
        "transactional_ddl": True,
        "version_table": VERSION_TABLE,
    }
    context = MigrationContext.configure(connection, opts=options)
    with Operations.context(context):
        context.run_migrations()
