-- Finds captures that are copies of an earlier one. Of captures with equal payloads, the
-- original is the earliest; if some must stay, since a revisit refers to them or their file
-- is only read, it is the earliest of those.
--
-- Equal payloads have the same payload_key: a capture that has a key alone has no copy. In
-- the same way name_key finds a URL and second that two captures share. Each part reads the
-- manifests again, but only the columns that it needs: keeping the rows for all parts took
-- longer, and had to be done on disk.
--
-- manifest   the rows of all manifests
-- only_read  the files that are not rewritten
-- admitted   a join with the types and sizes that the policy lets through, or nothing (filled in)
-- fit        what a capture has to be (filled in)
WITH unnamed AS (
  SELECT DISTINCT coalesce(refers_to_url, url) AS url FROM manifest
  WHERE type = 'revisit' AND refers_to_id IS NULL
    AND (refers_to_url IS NULL OR refers_to_date IS NULL)
), first_of_url AS (
  SELECT o.url, left(o.date, 19) AS second, row_number() OVER (
      PARTITION BY o.url, payload_digest
      ORDER BY captured_us, file, record_offset) AS nth
  FROM manifest o JOIN unnamed ON o.url = unnamed.url
  WHERE type = 'response' AND payload_digest IS NOT NULL AND captured_us IS NOT NULL
), referred AS (
  SELECT refers_to_url, left(refers_to_date, 19) AS refers_to_second FROM manifest
  WHERE type = 'revisit' AND refers_to_url IS NOT NULL
  UNION
  SELECT o.url, left(o.date, 19) FROM manifest r JOIN manifest o
    ON r.refers_to_id = o.record_id
  WHERE r.type = 'revisit' AND o.type = 'response'
    AND (r.refers_to_url IS NULL OR r.refers_to_date IS NULL)
  UNION
  SELECT url, second FROM first_of_url WHERE nth = 1
), repeated AS (
  SELECT payload_key FROM manifest {admitted} WHERE {fit}
  GROUP BY payload_key HAVING count(*) > 1
), names AS (
  SELECT name_key FROM manifest
  WHERE type IN ('response', 'resource') AND manifest.payload_key IS NOT NULL
  GROUP BY name_key HAVING count(*) > 1
), ambiguous AS (
  SELECT url, floor(captured_us / 1000000) AS captured_s
  FROM manifest JOIN names ON manifest.name_key = names.name_key
  WHERE type IN ('response', 'resource') AND manifest.payload_key IS NOT NULL
  GROUP BY url, floor(captured_us / 1000000)
  HAVING min(payload_digest) <> max(payload_digest)
    OR min(body_digest) <> max(body_digest)
), fit AS (
  SELECT manifest.file, manifest.record_offset, record_length, record_id, url, date,
    captured_us, floor(captured_us / 1000000) AS captured_s, payload_length,
    manifest.payload_key, payload_digest,
    CASE WHEN body_digest = payload_digest THEN '' ELSE body_digest END AS body_digest
  FROM manifest JOIN repeated ON manifest.payload_key = repeated.payload_key
  {admitted} WHERE {fit}
), eligible AS (
  SELECT fit.*, ambiguous.url IS NOT NULL AS is_ambiguous,
    referred.refers_to_url IS NOT NULL OR only_read.file IS NOT NULL AS stays
  FROM fit LEFT JOIN referred
    ON fit.url = referred.refers_to_url AND left(fit.date, 19) = refers_to_second
  LEFT JOIN ambiguous
    ON fit.url = ambiguous.url AND fit.captured_s = ambiguous.captured_s
  LEFT JOIN only_read ON fit.file = only_read.file
), ranked AS (
  SELECT *,
    CAST(row_number() OVER same AS BIGINT) AS copy,
    first_value(file) OVER same AS original_file,
    first_value(record_offset) OVER same AS original_offset,
    first_value(record_id) OVER same AS original_id,
    first_value(url) OVER same AS original_url,
    first_value(date) OVER same AS original_date,
    first_value(captured_s) OVER same AS original_s,
    first_value(is_ambiguous) OVER same AS original_is_ambiguous
  FROM eligible WINDOW same AS (
    PARTITION BY payload_key, payload_digest, payload_length, body_digest
    ORDER BY is_ambiguous, stays DESC, captured_us, file, record_offset
    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
)
SELECT file, record_offset, record_length, record_id, 'revisit' AS do, url, date,
  payload_length, payload_digest, copy, original_file, original_offset, original_id,
  original_url, original_date, 1 AS nth
FROM ranked
WHERE copy > 1 AND NOT stays AND NOT original_is_ambiguous
  AND NOT (url = original_url AND captured_s = original_s)
