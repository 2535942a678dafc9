"""Studies over weeks and by several people: asked and told in a database, exported, imported."""
