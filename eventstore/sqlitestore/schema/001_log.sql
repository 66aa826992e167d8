-- A log for each boundary, all in one file. A released script is never edited:
-- changes are new scripts.

CREATE TABLE boundary (
	id   INTEGER PRIMARY KEY,
	name TEXT NOT NULL UNIQUE,
	log  BLOB NOT NULL           -- UUID: tells this log from a later one in the same place
) STRICT;

-- Positions count through the whole file, so that one counter is enough and the
-- order of commits is theirs in every boundary. Nothing is ever changed here.
CREATE TABLE event (
	pos      INTEGER PRIMARY KEY,
	boundary INTEGER NOT NULL,
	id       BLOB NOT NULL,
	type     TEXT NOT NULL,
	data     TEXT NOT NULL,      -- JSON, as given
	metadata TEXT NOT NULL,      -- JSON
	time     INTEGER NOT NULL    -- microseconds since 1970
) STRICT;

-- Every event stands under each hash that it can be looked up by: its boundary,
-- its type, its event_id, each top-level string of its data. A hash is the first
-- 8 bytes of a SHA-256, so two things may share one: what is found here is
-- compared with the event itself.
CREATE TABLE lookup (
	h   INTEGER NOT NULL,
	pos INTEGER NOT NULL,
	PRIMARY KEY (h, pos)
) STRICT, WITHOUT ROWID;
