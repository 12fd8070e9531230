-- The revisits that name no capture in these files: only a digest says what they mean.
--
-- manifest   the rows of all manifests
-- refers     see refers.sql

SELECT file, record_offset, claim FROM manifest m
WHERE type = 'revisit' AND NOT EXISTS (
  SELECT 1 FROM refers r WHERE r.of_file = m.file AND r.of_offset = m.record_offset
    AND r.type <> 'conversion')
