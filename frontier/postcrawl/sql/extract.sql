-- The records that an extract leaves out.
--
-- manifest   the rows of all manifests
-- needed     see needed.sql
-- selected   a condition (filled in)

SELECT file, record_offset, record_length, record_id, 'drop' AS do,
  '' AS payload_digest, '' AS original_file, 0 AS original_offset, '' AS original_id,
  '' AS original_url, '' AS original_date, 1 AS nth
FROM manifest m
WHERE type <> 'warcinfo' AND NOT {selected} AND NOT EXISTS (
  SELECT 1 FROM needed n WHERE n.url = m.url AND n.date = m.date)
