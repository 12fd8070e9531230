-- The captures that a revisit names: by URL and second, or by record id.
--
-- manifest   the rows of all manifests

WITH captures AS (
  SELECT file, record_offset, record_id, type, url, left(date, 19) AS second
  FROM manifest WHERE type IN ('response', 'resource', 'revisit', 'conversion')
), names AS (
  SELECT file, record_offset, refers_to_id AS id, refers_to_url AS url,
    left(refers_to_date, 19) AS second
  FROM manifest WHERE type = 'revisit'
)
SELECT n.file AS of_file, n.record_offset AS of_offset, c.*
FROM names n JOIN captures c ON n.url = c.url AND n.second = c.second
UNION
SELECT n.file, n.record_offset, c.* FROM names n JOIN captures c ON n.id = c.record_id
