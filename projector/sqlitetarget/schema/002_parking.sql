-- Parking, counts, and the words of operators.

-- What is counted under a name: a row as soon as there is something to count.
CREATE TABLE ccc_count (
	name   INTEGER PRIMARY KEY,
	parked INTEGER NOT NULL DEFAULT 0, -- events that wait in ccc_parked
	asked  INTEGER NOT NULL DEFAULT 0  -- words of operators; workers see it grow
) STRICT;

-- ccc_checkpoint.applied and .skipped are written from now on; moved is 0 where
-- events were counted and the position never moved. ccc_parked and
-- ccc_parked_key are written, but for retry; so is ccc_done.position, but for
-- the marks from before.
ALTER TABLE ccc_parked ADD COLUMN due INTEGER; -- when it is to be tried, or discarded
ALTER TABLE ccc_parked ADD COLUMN discard TEXT NOT NULL DEFAULT ''; -- what for, once somebody asked for that
ALTER TABLE ccc_parked ADD COLUMN replay INTEGER NOT NULL DEFAULT 0; -- 1: it was applied before, to another generation
ALTER TABLE ccc_parked ADD COLUMN hold INTEGER NOT NULL DEFAULT 0; -- 1: nobody knows whether its effect is there
ALTER TABLE ccc_failure ADD COLUMN hold INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ccc_failure ADD COLUMN discard TEXT NOT NULL DEFAULT '';
CREATE INDEX ccc_parked_due ON ccc_parked (name, due) WHERE state = 'waiting' AND due IS NOT NULL;

-- The generations that are not live are looked for too.
CREATE INDEX ccc_generation_state ON ccc_generation (state);
