-- The lines of manifest.warcsum.
--
-- manifest   the rows of all manifests

SELECT regexp_replace(regexp_extract(m.file, '[^/]*$'), '[\s[:cntrl:]]', '%20', 'g'),
  m.record_offset, m.record_length,
  coalesce(nullif(regexp_replace(m.url, '[\s[:cntrl:]]', '%20', 'g'), ''), '-'),
  coalesce(nullif(regexp_replace(m.date, '[\s[:cntrl:]]', '%20', 'g'), ''), '-'), m.payload_digest
FROM manifest m WHERE m.type = 'response' AND m.payload_digest IS NOT NULL
ORDER BY m.file, m.record_offset
