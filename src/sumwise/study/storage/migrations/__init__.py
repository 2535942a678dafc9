"""From older schemas to the present one, with Alembic.

Opening a study does not come here: importing Alembic takes longer than asking a question. There is
no `env.py`, because nothing runs at import.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from sumwise.study.storage.schema import VERSION_TABLE


def migrate(connection: Connection, target: str = "head") -> None:
    """Bring the tables to version `target`, inside the caller's transaction."""
    from alembic.migration import MigrationContext
    from alembic.operations import Operations
    from alembic.script import ScriptDirectory

    here = Path(__file__).parent
    script = ScriptDirectory(str(here), version_locations=[str(here / "versions")])

    def steps(version: Any, context: Any) -> Any:
        del context
        return script._upgrade_revs(target, version)

    options = {"fn": steps, "version_table": VERSION_TABLE, "transactional_ddl": True}
    context = MigrationContext.configure(connection, opts=options)
    with Operations.context(context):
        context.run_migrations()
