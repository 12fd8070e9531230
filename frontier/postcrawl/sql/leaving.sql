-- The records that are to leave: captures, and the requests and metadata records that
-- have the URL and the date of one.
--
-- For a payload that is named, these are the captures that have it; revisits and unreadable
-- captures that claim it, or claim another digest of the same bytes; and, of those whose
-- digest cannot be compared, what refers to one of these.
--
-- manifest   the rows of all manifests
-- refers     see refers.sql
-- urls, ids, payloads  what is named

WITH RECURSIVE have AS (
  SELECT file, record_offset, claim, agrees FROM manifest
  WHERE type IN ('response', 'resource', 'conversion')
    AND (payload_digest IN (FROM payloads) OR body_digest IN (FROM payloads))
), meant AS (
  SELECT digest FROM payloads UNION SELECT claim FROM have WHERE agrees
), claiming AS (
  SELECT file, record_offset, claim,
    split_part(claim, ':', 1) IN (SELECT split_part(digest, ':', 1) FROM meant) AS is_told
  FROM manifest
  WHERE type IN ('response', 'resource', 'revisit', 'conversion')
    AND payload_digest IS NULL AND EXISTS (FROM payloads)
), places AS (
  SELECT file, record_offset FROM have
  UNION
  SELECT file, record_offset FROM claiming WHERE claim IN (FROM meant)
  UNION
  SELECT c.file, c.record_offset FROM places p
  JOIN refers r ON p.file = r.file AND p.record_offset = r.record_offset
  JOIN claiming c ON r.of_file = c.file AND r.of_offset = c.record_offset
  WHERE c.is_told IS NOT TRUE
), captures AS (
  SELECT DISTINCT m.file, url, date FROM manifest m
    LEFT JOIN ids ON m.record_id = ids.record_id
    LEFT JOIN places p ON m.file = p.file AND m.record_offset = p.record_offset
  WHERE type IN ('response', 'resource', 'revisit', 'conversion')
    AND (ids.record_id IS NOT NULL OR p.file IS NOT NULL)
)
SELECT m.* FROM manifest m LEFT JOIN urls ON m.url = urls.url
  LEFT JOIN ids ON m.record_id = ids.record_id
  LEFT JOIN places p ON m.file = p.file AND m.record_offset = p.record_offset
  LEFT JOIN captures c ON m.file = c.file AND m.url = c.url AND m.date = c.date
    AND m.type IN ('request', 'metadata')
WHERE m.type <> 'warcinfo' AND (urls.url IS NOT NULL OR ids.record_id IS NOT NULL
    OR p.file IS NOT NULL OR c.url IS NOT NULL)
