-- swap: writes a cell if it has the version (0: if there is none) and the clock is within bounds. Whether it did, and if not,
-- what the cell has; and the clock in microseconds when the request came, or when the cell was read. It fails with CO003 if it
-- has waited for the row until the clock was beyond bounds.
CREATE OR REPLACE FUNCTION {schema}.swap_2(
	of_kind text, of_key bytea, of_name text, had bigint, gets bigint, with_value bytea, keep interval,
	not_before timestamptz, not_after timestamptz,
	OUT swapped boolean, OUT has_version bigint, OUT has_value bytea, OUT at bigint
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
	came timestamptz := clock_timestamp();
BEGIN
	IF of_kind <> 'limit' THEN -- of version 1 of the tables
		RAISE EXCEPTION 'coord: the tables are of version 2: this client is too old for them: restart it with the version of coord that made them';
	END IF;
	-- A request that was faster than those before it comes a moment too early.
	IF came BETWEEN not_before - interval '100 milliseconds' AND not_before THEN
		PERFORM pg_sleep_for(not_before - came);
	END IF;
	IF had = 0 THEN
		INSERT INTO {schema}.cells (kind, key, name, version, value, until)
		SELECT of_kind, of_key, of_name, gets, with_value, clock_timestamp() + keep
		WHERE clock_timestamp() BETWEEN not_before AND not_after
		ON CONFLICT DO NOTHING;
	ELSE
		UPDATE {schema}.cells SET version = gets, value = with_value, until = clock_timestamp() + keep
		WHERE key = of_key AND kind = of_kind AND name = of_name AND version = had
			AND clock_timestamp() BETWEEN not_before AND not_after;
	END IF;
	swapped := FOUND;
	IF swapped AND clock_timestamp() > not_after THEN
		RAISE EXCEPTION 'coord: too late' USING ERRCODE = 'CO003';
	END IF;
	IF NOT swapped THEN
		came := clock_timestamp();
		SELECT version, value INTO has_version, has_value
		FROM {schema}.cells WHERE key = of_key AND kind = of_kind AND name = of_name;
	END IF;
	has_version := coalesce(has_version, 0);
	at := {micros(came)};
END
$$;

-- swap_all: swap of several cells, all or none. Those that get the version that they had are only compared. If one has another
-- version, or if it is too late, it fails with CO003.
CREATE OR REPLACE FUNCTION {schema}.swap_all_2(
	kinds text[], keys bytea[], names text[], had bigint[], gets bigint[], vals bytea[], keeps interval[],
	not_before timestamptz, not_after timestamptz
) RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
	has bigint;
	same boolean;
BEGIN
	FOR i IN 1 .. pg_catalog.cardinality(keys) LOOP -- in the order of the arguments, so that two of these never wait for each other
		IF gets[i] = had[i] THEN
			SELECT version INTO has FROM {schema}.cells
			WHERE key = keys[i] AND kind = kinds[i] AND name = names[i] FOR UPDATE;
			same := coalesce(has, 0) = had[i];
		ELSE
			SELECT s.swapped INTO same FROM {schema}.swap_2(
				kinds[i], keys[i], names[i], had[i], gets[i], vals[i], keeps[i], not_before, not_after) AS s;
		END IF;
		IF NOT same THEN
			RAISE EXCEPTION 'coord: another version' USING ERRCODE = 'CO003';
		END IF;
	END LOOP;
	IF clock_timestamp() > not_after THEN -- the last one was only compared
		RAISE EXCEPTION 'coord: too late' USING ERRCODE = 'CO003';
	END IF;
	RETURN {now};
END
$$;
