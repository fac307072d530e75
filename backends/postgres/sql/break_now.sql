-- break_now: unlock, also of a key that is kept for the id.
CREATE OR REPLACE FUNCTION {schema}.break_now_2(of_key bytea, by_id text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
	-- Nobody sees it as held: unlock ends that in the same transaction.
	UPDATE {schema}.locks SET state = 'held' WHERE key = of_key AND id = by_id AND state = 'kept' AND until > clock_timestamp();
	RETURN (SELECT u.ended FROM {schema}.unlock_2(of_key, by_id, interval '0', false) AS u);
END
$$;
