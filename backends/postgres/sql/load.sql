SELECT w.n, coalesce(c.version, 0), c.value, {now}
FROM unnest($1::text[], $2::bytea[], $3::text[]) WITH ORDINALITY AS w (kind, key, name, n)
LEFT JOIN {schema}.cells AS c ON c.key = w.key AND c.kind = w.kind AND c.name = w.name
