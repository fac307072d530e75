-- unlock: whether there was a hold of the id, or a place in the queue. Where somebody waits for the key, and if it may be early,
-- the end of the hold is seen before it is on the disk.
CREATE OR REPLACE FUNCTION {schema}.unlock_2(of_key bytea, by_id text, kept interval, may_be_early boolean, OUT ended boolean, OUT early boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
	late boolean;
BEGIN
	early := false;
	LOOP
		UPDATE {schema}.locks
		SET state = CASE WHEN kept > interval '0' THEN 'kept' ELSE 'free' END, until = clock_timestamp() + kept, ttl = kept
		WHERE key = of_key AND id = by_id AND state = 'held' AND until > clock_timestamp()
		RETURNING queued AND may_be_early AND kept <= interval '0' INTO early;
		IF FOUND THEN
			IF early THEN
				PERFORM set_config('synchronous_commit', 'off', true);
			END IF;
			ended := true;
			RETURN;
		END IF;
		early := false;
		-- Who has withdrawn its place is not granted the key. A place that a crash brings back ends by itself.
		DELETE FROM {schema}.waiters WHERE id = by_id AND key IS NOT DISTINCT FROM of_key RETURNING until > clock_timestamp() INTO ended;
		IF FOUND THEN
			PERFORM set_config('synchronous_commit', 'off', true);
			RETURN;
		END IF;
		-- A request of this id may wait for the row: after it there is a hold, or a place.
		SELECT state = 'held' AND id = by_id AND until > clock_timestamp() INTO late FROM {schema}.locks WHERE key = of_key FOR UPDATE;
		CONTINUE WHEN late;
		IF NOT EXISTS (SELECT FROM {schema}.waiters WHERE id = by_id AND key IS NOT DISTINCT FROM of_key) THEN
			ended := false;
			RETURN;
		END IF;
	END LOOP;
END
$$;

-- release: unlock, for clients. The first in the queue goes on while the disk writes, and the caller hears of it when it has been
-- written: a transaction that says nothing waits for all before it. A procedure with transactions has no settings of its own, so
-- it only calls functions, by their full names.
CREATE OR REPLACE PROCEDURE {schema}.release_1(of_key bytea, by_id text, kept interval, INOUT ended boolean)
LANGUAGE plpgsql AS $$
DECLARE
	early boolean;
BEGIN
	SELECT u.ended, u.early INTO ended, early FROM {schema}.unlock_2(of_key, by_id, kept, true) AS u;
	IF early THEN
		COMMIT;
		PERFORM pg_catalog.pg_logical_emit_message(true, 'coord', '');
	END IF;
END
$$;
