"""From older schemas to the present one, with Alembic.

Opening a study does not import this: importing Alembic takes longer than asking a question. There
is no `env.py`, because nothing runs at import.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection

from sumwise.study.storage.schema import VERSION_TABLE


def migrate(connection: Connection, target: str = "head") -> None:
    """Bring the tables to version `target`, inside the caller's transaction."""
    from alembic.migration import MigrationContext
    from alembic.operations import Operations
    from alembic.script import ScriptDirectory

    here = Path(__file__).parent
    script = ScriptDirectory(str(here), version_locations=[str(here / "versions")])

    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    missing = list(script.iterate_revisions(target, context.get_current_revision()))
    with Operations.context(context):
        for step in reversed(missing):
            step.module.upgrade()
            context.stamp(script, step.revision)
