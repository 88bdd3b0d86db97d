"""The catalog: names, policies and schemas in SQLite, guarded by the journal."""
