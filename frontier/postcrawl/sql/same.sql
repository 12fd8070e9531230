-- How many captures that stay have the payload of one that leaves, by its digest as a
-- record claims it. Wrong claims do not count.
--
-- manifest   the rows of all manifests
-- leaving    see leaving.sql
-- empty      the digests of no bytes

WITH captures AS (
  SELECT *, CASE WHEN agrees IS DISTINCT FROM FALSE THEN claim END AS claims
  FROM manifest WHERE type IN ('response', 'resource', 'revisit', 'conversion')
), left_with AS (
  SELECT c.*, first_value(coalesce(claims, c.payload_digest)) OVER (
    PARTITION BY coalesce(c.payload_digest, claims)
    ORDER BY c.file, c.record_offset) AS label
  FROM captures c SEMI JOIN leaving l
    ON c.file = l.file AND c.record_offset = l.record_offset
), labels AS (
  SELECT digest, min(label) AS label
  FROM (SELECT unnest([payload_digest, claims]) AS digest, label FROM left_with) each_one
  WHERE digest NOT IN (FROM empty) GROUP BY digest
)
SELECT coalesce(by_payload.label, by_claim.label) AS digest, count(*) AS captures
FROM captures c ANTI JOIN leaving l
    ON c.file = l.file AND c.record_offset = l.record_offset
  LEFT JOIN labels by_payload ON c.payload_digest = by_payload.digest
  LEFT JOIN labels by_claim ON c.claims = by_claim.digest
WHERE coalesce(by_payload.label, by_claim.label) IS NOT NULL
GROUP BY 1 ORDER BY captures DESC, digest
