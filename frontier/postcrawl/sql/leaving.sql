-- The records that are to leave: captures, and the requests and metadata records that
-- have the URL and the date of one.
--
-- manifest   the rows of all manifests
-- urls, ids  what is named
-- places     file and record_offset of captures that have a payload that is named

WITH captures AS (
  SELECT DISTINCT m.file, url, date FROM manifest m
    LEFT JOIN ids ON m.record_id = ids.record_id
    LEFT JOIN places p ON m.file = p.file AND m.record_offset = p.record_offset
  WHERE type IN ('response', 'resource', 'revisit', 'conversion')
    AND (ids.record_id IS NOT NULL OR p.file IS NOT NULL)
)
SELECT m.file, m.record_offset, m.record_length, m.record_id, m.type, m.url, m.date,
  m.claimed_digest, m.payload_digest, m.body_digest, m.agrees
FROM manifest m LEFT JOIN urls ON m.url = urls.url
  LEFT JOIN ids ON m.record_id = ids.record_id
  LEFT JOIN places p ON m.file = p.file AND m.record_offset = p.record_offset
  LEFT JOIN captures c ON m.file = c.file AND m.url = c.url AND m.date = c.date
    AND m.type IN ('request', 'metadata')
WHERE m.type <> 'warcinfo' AND (urls.url IS NOT NULL OR ids.record_id IS NOT NULL
    OR p.file IS NOT NULL OR c.url IS NOT NULL)
ORDER BY m.file, m.record_offset
