-- The revisits to restore, and the captures that each may mean, the likeliest first: those
-- that it names by URL and second or by record id; if there are none, those with its
-- digest; if there are none either, those that it leads to by way of other revisits.
--
-- manifest   the rows of all manifests
-- asked      the files to restore
-- selected   a condition (filled in)
-- most       how many captures of one digest are looked at (filled in)

WITH RECURSIVE wanted AS (
  SELECT * FROM manifest
  WHERE type = 'revisit' AND file IN (SELECT file FROM asked) AND {selected}
), revisits AS (
  SELECT file, record_offset, refers_to_url, refers_to_date, refers_to_id FROM manifest
  WHERE type = 'revisit'
), captures AS (
  SELECT file, record_offset, record_id, url, date, type FROM manifest
  WHERE type = 'revisit'
    OR type IN ('response', 'resource') AND payload_digest IS NOT NULL
), named AS MATERIALIZED (
  SELECT r.file AS of_file, r.record_offset AS of_offset, o.file, o.record_offset,
    o.record_id, o.type, o.date <> r.refers_to_date AS is_near
  FROM revisits r JOIN captures o
    ON r.refers_to_url = o.url AND left(r.refers_to_date, 19) = left(o.date, 19)
  UNION
  SELECT r.file, r.record_offset, o.file, o.record_offset, o.record_id, o.type, FALSE
  FROM revisits r JOIN captures o ON r.refers_to_id = o.record_id
), unnamed AS (
  SELECT file, record_offset, claim FROM wanted w
  WHERE NOT EXISTS (SELECT 1 FROM named n WHERE n.of_file = w.file
    AND n.of_offset = w.record_offset AND n.type <> 'revisit')
), digests AS (
  SELECT claim AS digest, file, record_offset, record_id FROM manifest
  WHERE type IN ('response', 'resource') AND payload_digest IS NOT NULL
  UNION
  SELECT payload_digest, file, record_offset, record_id FROM manifest
  WHERE type IN ('response', 'resource') AND payload_digest IS NOT NULL
), alike AS (
  SELECT * FROM digests WHERE digest IN (SELECT claim FROM unnamed)
  QUALIFY row_number() OVER (
    PARTITION BY digest ORDER BY file, record_offset) <= {most}
), linked AS (
  SELECT u.file AS of_file, u.record_offset AS of_offset, n.file, n.record_offset,
    n.record_id, n.type
  FROM unnamed u JOIN named n ON u.file = n.of_file AND u.record_offset = n.of_offset
  UNION
  SELECT l.of_file, l.of_offset, n.file, n.record_offset, n.record_id, n.type
  FROM linked l JOIN named n ON l.file = n.of_file AND l.record_offset = n.of_offset
  WHERE l.type = 'revisit'
), found AS (
  SELECT of_file, of_offset, file, record_offset, record_id, 0 AS way, is_near
  FROM named WHERE type <> 'revisit'
  UNION ALL
  SELECT u.file, u.record_offset, a.file, a.record_offset, a.record_id, 1, FALSE
  FROM unnamed u JOIN alike a ON u.claim = a.digest
  UNION ALL
  SELECT of_file, of_offset, file, record_offset, record_id, 2, FALSE
  FROM linked WHERE type <> 'revisit'
), best AS (
  SELECT * FROM found
  QUALIFY way = min(way) OVER (PARTITION BY of_file, of_offset)
)
SELECT w.file, w.record_offset, w.record_length, w.record_id, 'restore' AS do,
  '' AS payload_digest, coalesce(b.file, '') AS original_file,
  coalesce(b.record_offset, 0) AS original_offset,
  coalesce(b.record_id, '') AS original_id, '' AS original_url, '' AS original_date,
  row_number() OVER (PARTITION BY w.file, w.record_offset
    ORDER BY b.is_near, b.file, b.record_offset) AS nth
FROM wanted w LEFT JOIN best b
  ON w.file = b.of_file AND w.record_offset = b.of_offset
