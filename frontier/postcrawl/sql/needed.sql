-- The selected revisits, and the captures that each leads to, up to the payload.
--
-- manifest   the rows of all manifests
-- selected   a condition (filled in)

WITH RECURSIVE needed AS (
  SELECT file, record_offset, type, url, date, refers_to_url, refers_to_date
  FROM manifest WHERE type = 'revisit' AND {selected}
  UNION
  SELECT o.file, o.record_offset, o.type, o.url, o.date, o.refers_to_url,
    o.refers_to_date
  FROM needed r JOIN manifest o
    ON r.refers_to_url = o.url AND left(r.refers_to_date, 19) = left(o.date, 19)
  WHERE r.type = 'revisit' AND o.type IN ('response', 'resource', 'revisit')
)
SELECT * FROM needed
