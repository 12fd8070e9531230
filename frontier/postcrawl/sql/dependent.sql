-- Revisits, and whether one names a capture that is there.
--
-- manifest   the rows of all manifests

WITH captures AS (
  SELECT record_id, url, left(date, 19) AS second FROM manifest
  WHERE type IN ('response', 'resource', 'revisit')
)
SELECT file, record_offset, record_id, url, date, refers_to_id, refers_to_url,
  refers_to_date, claimed_digest,
  refers_to_id IN (SELECT record_id FROM captures) IS TRUE
    OR EXISTS (SELECT 1 FROM captures c
      WHERE c.url = refers_to_url AND c.second = left(refers_to_date, 19))
FROM manifest WHERE type = 'revisit'
ORDER BY file, record_offset
