-- What projectors keep in the file of their model, beside the tables of the
-- model itself. A released script is never edited: changes are new scripts.
--
-- Positions are the text that consistency.Position writes: texts sort, byte by
-- byte, as positions do. UUIDs are 16 bytes, the zero one where there is none.
-- Times are microseconds since 1970, UTC; NULL where there is none.
-- "Not written yet" marks what today's code leaves alone; it is here so that
-- the code that needs it changes no file.

-- One row for each projector and boundary that was ever claimed; it stays.
CREATE TABLE ccc_name (
	id        INTEGER PRIMARY KEY,
	projector TEXT NOT NULL,
	boundary  TEXT NOT NULL,
	UNIQUE (projector, boundary)
) STRICT;

-- What protects: a batch is committed only under the latest epoch of its name,
-- and only as long as that is held. Several lanes of one worker share the row.
CREATE TABLE ccc_epoch (
	name  INTEGER PRIMARY KEY,    -- ccc_name.id, here and below
	epoch INTEGER NOT NULL,       -- grows with each claim
	held  INTEGER NOT NULL        -- 0: released
) STRICT;

-- Who works: a row for each claim that is not released. A wrong lease costs
-- time, never an effect.
CREATE TABLE ccc_lease (
	name  INTEGER PRIMARY KEY,
	epoch INTEGER NOT NULL,
	owner TEXT NOT NULL,          -- holds a lock on <this file>-live-<owner> while it lives
	until INTEGER NOT NULL        -- in milliseconds; later than that the name is free
) STRICT;

-- How far a projector is.
CREATE TABLE ccc_checkpoint (
	name     INTEGER PRIMARY KEY,
	position TEXT NOT NULL,       -- done with, and everything before it
	event_id BLOB NOT NULL,       -- of the event there: another one shows a foreign log
	log      BLOB NOT NULL,       -- of the log, the same
	moved    INTEGER NOT NULL,    -- when the position moved last
	applied  INTEGER NOT NULL DEFAULT 0, -- events; not written yet
	skipped  INTEGER NOT NULL DEFAULT 0, -- events, by policy; not written yet
	replayed TEXT                 -- up to here events were applied again by a rebuild: no
	                              -- reaction fires for them; not written yet
) STRICT;

-- Events that were marked as done, where the log may hold an event_id twice, or
-- where events are done out of order (lanes, parked events).
CREATE TABLE ccc_done (
	name     INTEGER NOT NULL,
	event_id BLOB NOT NULL,
	position TEXT,                -- marks up to the checkpoint may be dropped where the log
	                              -- refuses a second event_id; not written yet
	lane     INTEGER NOT NULL DEFAULT 0, -- not written yet
	PRIMARY KEY (name, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX ccc_done_position ON ccc_done (name, position) WHERE position IS NOT NULL;

-- The event that stands in the way of a projector.
CREATE TABLE ccc_failure (
	name     INTEGER PRIMARY KEY,
	position TEXT NOT NULL,
	event_id BLOB NOT NULL,
	type     TEXT NOT NULL,
	attempts INTEGER NOT NULL,    -- so far, restarts included
	first    INTEGER,
	last     INTEGER,
	error    TEXT NOT NULL,
	halted   INTEGER NOT NULL,    -- 1: no further try but the slow one
	resume   INTEGER              -- when somebody asked for a try at once; gone with the next
	                              -- failure; not written yet
) STRICT;

-- Events that were put aside so that others could go on. Not written yet, nor
-- are the tables below.
CREATE TABLE ccc_parked (
	id        INTEGER PRIMARY KEY,
	name      INTEGER NOT NULL,
	position  TEXT NOT NULL,
	event_id  BLOB NOT NULL,
	type      TEXT NOT NULL,      -- the record, whole, as the log has it
	data      TEXT NOT NULL,
	metadata  TEXT NOT NULL,
	time      INTEGER NOT NULL,
	keys      TEXT NOT NULL,      -- JSON array: what later events wait behind
	reason    TEXT NOT NULL,      -- failed: could not be applied; behind: waits for one that was
	attempts  INTEGER NOT NULL DEFAULT 0,
	first     INTEGER,            -- tries
	last      INTEGER,
	error     TEXT NOT NULL DEFAULT '',
	parked    INTEGER NOT NULL,   -- when
	retry     INTEGER,            -- when somebody asked for another try
	state     TEXT NOT NULL DEFAULT 'waiting', -- then applied or discarded, and kept
	settled   INTEGER,            -- when that was
	discarded TEXT,               -- why
	UNIQUE (name, position)
) STRICT;
CREATE INDEX ccc_parked_waiting ON ccc_parked (name, position) WHERE state = 'waiting';

-- The keys of parked events that wait: is a key parked, and what is next in its
-- order. Rows go when the event is settled.
CREATE TABLE ccc_parked_key (
	name     INTEGER NOT NULL,
	key      TEXT NOT NULL,
	position TEXT NOT NULL,
	parked   INTEGER NOT NULL,    -- ccc_parked.id
	PRIMARY KEY (name, key, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX ccc_parked_key_of ON ccc_parked_key (parked);

-- Rebuilds: the model is made anew in another file, with tables like these of
-- its own, and readers of this file are sent there by one change of a row here.
CREATE TABLE ccc_generation (
	number   INTEGER PRIMARY KEY,
	file     TEXT NOT NULL,       -- beside this one; empty: this one
	state    TEXT NOT NULL,       -- building, live, old, dropped
	made     INTEGER NOT NULL,
	switched INTEGER,             -- when it went live
	note     TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE UNIQUE INDEX ccc_generation_live ON ccc_generation (state) WHERE state = 'live';
INSERT INTO ccc_generation (number, file, state, made) VALUES (1, '', 'live', unixepoch() * 1000000);

-- The scripts that made the tables of the model, as they were run.
CREATE TABLE ccc_script (
	number INTEGER PRIMARY KEY,
	text   TEXT NOT NULL,
	ran    INTEGER NOT NULL
) STRICT;
