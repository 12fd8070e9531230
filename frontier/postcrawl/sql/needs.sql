-- Each revisit that stays, with each capture that leaves and that it needs: it refers to
-- that capture, or to a revisit that leaves and needs it.
--
-- manifest   the rows of all manifests
-- refers     see refers.sql
-- unnamed    see unnamed.sql
-- leaving    see leaving.sql
-- computed   further digests of what leaves: digest, file, record_offset

WITH RECURSIVE captures AS (
  SELECT * FROM leaving WHERE type IN ('response', 'resource', 'revisit')
), digests AS (
  SELECT file, record_offset, unnest([claim, payload_digest, body_digest]) AS digest
  FROM captures WHERE type <> 'revisit'
  UNION
  SELECT file, record_offset, digest FROM computed
), needs AS (
  SELECT of_file, of_offset, file, record_offset FROM refers
  UNION
  SELECT u.file, u.record_offset, d.file, d.record_offset
  FROM unnamed u JOIN digests d ON u.claim = d.digest
), needed AS (
  SELECT n.of_file, n.of_offset, c.url, left(c.date, 19) AS second
  FROM needs n JOIN captures c ON n.file = c.file AND n.record_offset = c.record_offset
  WHERE NOT EXISTS (SELECT 1 FROM leaving l
    WHERE n.of_file = l.file AND n.of_offset = l.record_offset)
  UNION
  SELECT before.of_file, before.of_offset, c.url, left(c.date, 19)
  FROM needed before
  JOIN captures r ON before.url = r.url AND before.second = left(r.date, 19)
  JOIN needs n ON r.file = n.of_file AND r.record_offset = n.of_offset
  JOIN captures c ON n.file = c.file AND n.record_offset = c.record_offset
)
SELECT needed.of_file, needed.of_offset, m.record_id, needed.url, needed.second || 'Z'
FROM needed JOIN manifest m
  ON needed.of_file = m.file AND needed.of_offset = m.record_offset
ORDER BY ALL
