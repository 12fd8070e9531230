-- The lines of plan.warcsum.
--
-- manifest   the rows of all manifests
-- plan       the copies

SELECT regexp_replace(regexp_extract(m.file, '[^/]*$'), '[\s[:cntrl:]]', '%20', 'g'),
  m.record_offset, m.record_length,
  coalesce(nullif(regexp_replace(m.url, '[\s[:cntrl:]]', '%20', 'g'), ''), '-'),
  coalesce(nullif(regexp_replace(m.date, '[\s[:cntrl:]]', '%20', 'g'), ''), '-'), m.payload_digest,
  dense_rank() OVER (PARTITION BY m.payload_digest ORDER BY m.payload_length)
    AS extension,
  coalesce(p.copy, 1) AS number,
  coalesce(regexp_replace(p.original_url, '[\s[:cntrl:]]', '%20', 'g'), '-'),
  coalesce(regexp_replace(p.original_date, '[\s[:cntrl:]]', '%20', 'g'), '-')
FROM manifest m
LEFT JOIN plan p ON m.file = p.file AND m.record_offset = p.record_offset
WHERE m.type = 'response' AND m.payload_digest IS NOT NULL
ORDER BY m.payload_digest, extension, number, m.file, m.record_offset
