-- unlock: whether there was a hold of the id, or a place in the queue. Whoever leaves a key free, or ends a lease sooner, notifies
-- the first in the queue.
CREATE OR REPLACE FUNCTION {schema}.unlock_1(of_key bytea, by_id text, kept interval) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
	ended boolean;
	awaited boolean;
	late boolean;
	first text;
BEGIN
	LOOP
		UPDATE {schema}.locks
		SET state = CASE WHEN kept > interval '0' THEN 'kept' ELSE 'free' END, until = clock_timestamp() + kept
		WHERE key = of_key AND id = by_id AND state = 'held' AND until > clock_timestamp()
		RETURNING queued > clock_timestamp() INTO awaited;
		ended := FOUND;
		EXIT WHEN ended;

		-- The row is locked first: of several that leave at once the last one sees who is left, and a request of this id
		-- that waited for the row has been granted.
		SELECT state = 'free' OR until <= clock_timestamp(), state = 'held' AND id = by_id AND until > clock_timestamp()
		INTO awaited, late FROM {schema}.locks WHERE key = of_key FOR UPDATE;
		CONTINUE WHEN late;
		DELETE FROM {schema}.waiters WHERE key = of_key AND id = by_id RETURNING until > clock_timestamp() INTO ended;
		awaited := FOUND AND awaited;
		ended := coalesce(ended, false);
		EXIT;
	END LOOP;

	IF awaited THEN
		SELECT id INTO first FROM {schema}.waiters WHERE key = of_key AND until > clock_timestamp() ORDER BY place LIMIT 1;
		IF FOUND THEN
			PERFORM pg_notify('coord_{schema}', encode(sha256(of_key), 'hex') || ' ' || first);
		END IF;
	END IF;
	RETURN ended;
END
$$;
