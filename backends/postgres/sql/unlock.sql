-- unlock: whether there was a hold of the id, or a place in the queue. A crash of the server may undo the end of a hold: then the
-- key is taken until the lease ends. Whoever is granted it after that makes it last, for the server writes in order.
CREATE OR REPLACE FUNCTION {schema}.unlock_2(of_key bytea, by_id text, kept interval) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
	lived boolean;
	late boolean;
BEGIN
	IF kept <= interval '0' THEN
		PERFORM set_config('synchronous_commit', 'off', true);
	END IF;
	LOOP
		UPDATE {schema}.locks
		SET state = CASE WHEN kept > interval '0' THEN 'kept' ELSE 'free' END, until = clock_timestamp() + kept, ttl = kept
		WHERE key = of_key AND id = by_id AND state = 'held' AND until > clock_timestamp();
		IF FOUND THEN
			RETURN true;
		END IF;
		-- Who has withdrawn its place is not granted the key.
		DELETE FROM {schema}.waiters WHERE id = by_id AND key IS NOT DISTINCT FROM of_key RETURNING until > clock_timestamp() INTO lived;
		IF FOUND THEN
			RETURN lived;
		END IF;
		-- A request of this id may wait for the row: after it there is a hold, or a place.
		SELECT state = 'held' AND id = by_id AND until > clock_timestamp() INTO late FROM {schema}.locks WHERE key = of_key FOR UPDATE;
		CONTINUE WHEN late;
		IF NOT EXISTS (SELECT FROM {schema}.waiters WHERE id = by_id AND key IS NOT DISTINCT FROM of_key) THEN
			RETURN false;
		END IF;
	END LOOP;
END
$$;
