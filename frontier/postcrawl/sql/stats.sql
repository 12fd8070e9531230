-- Captures, and which of them have the payload of an earlier one, by type, host, year and
-- size.
--
-- manifest   the rows of all manifests
-- most       how many names of a kind are reported (filled in)

WITH ranked AS (
  SELECT coalesce(nullif(mime, ''), '(none)') AS mime,
    coalesce(nullif(lower(regexp_extract(url, '^[a-zA-Z][^:/]*://(?:[^/?#@]*@)?([^/?#]*)',
      1)), ''), '(none)') AS host,
    coalesce(nullif(substr(date, 1, 4), ''), '(none)') AS year,
    CASE WHEN payload_length < 1000 THEN '< 1 kB'
      WHEN payload_length < 10000 THEN '1 to 10 kB'
      WHEN payload_length < 100000 THEN '10 to 100 kB'
      WHEN payload_length < 1000000 THEN '100 kB to 1 MB'
      WHEN payload_length < 10000000 THEN '1 to 10 MB'
      ELSE '10 MB and more' END AS size,
    payload_length AS bytes,
    CASE WHEN payload_length > 0 AND row_number() OVER (
      PARTITION BY payload_digest, payload_length
      ORDER BY coalesce(captured_us, 0), file, record_offset) > 1
      THEN 1 ELSE 0 END AS is_copy
  FROM manifest
  WHERE type IN ('response', 'resource') AND payload_digest IS NOT NULL
), grouped AS (
  SELECT CASE WHEN grouping(mime) = 0 THEN 'mime' WHEN grouping(host) = 0 THEN 'host'
      WHEN grouping(year) = 0 THEN 'year' WHEN grouping(size) = 0 THEN 'size'
      ELSE 'all' END AS kind,
    coalesce(mime, host, year, size, '') AS name,
    count(*) AS captures, CAST(sum(is_copy) AS BIGINT) AS copies,
    CAST(sum(bytes) AS BIGINT) AS payload_bytes,
    CAST(sum(is_copy * bytes) AS BIGINT) AS copied_bytes
  FROM ranked GROUP BY GROUPING SETS ((mime), (host), (year), (size), ())
), placed AS (
  SELECT *, row_number() OVER (
      PARTITION BY kind ORDER BY copied_bytes DESC, payload_bytes DESC, name) AS place,
    count(*) OVER (PARTITION BY kind) AS names
  FROM grouped
)
SELECT kind, names, name, captures, copies, payload_bytes, copied_bytes
FROM placed WHERE place <= {most} ORDER BY kind, place
