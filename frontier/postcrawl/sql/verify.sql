-- What became of each record. A file of AFTER that has no record of BEFORE, as of another
-- directory that was deduplicated with it, is *further*: its records are no faults.
--
-- before, after   the rows of the manifests of both sides, with the name of their file
-- matched    which record after is which before
-- captures   the rows of all files that may have originals

WITH pairs AS (
  SELECT coalesce(b.name, a.name) AS name, b.record_offset AS offset_before,
    a.record_offset AS offset_after,
    b.name IS NULL AND a.name NOT IN (SELECT name_after FROM matched) AS is_further,
    b.type AS type_before, a.type AS type_after, b.url, b.date,
    b.payload_length, b.body_digest, a.refers_to_url, a.refers_to_date,
    coalesce(b.whole_digest = a.whole_digest, FALSE) AS is_same,
    coalesce(a.type = 'revisit' AND b.type = 'response' AND a.url = b.url
      AND a.date = b.date AND a.head_digest = b.head_digest, FALSE) AS is_revisit,
    coalesce(a.type = b.type AND a.record_id = b.record_id AND a.url = b.url
      AND a.date = b.date AND a.head_digest = b.head_digest
      AND a.body_digest = b.body_digest, FALSE) AS is_block,
    coalesce(a.type = 'response' AND b.type = 'revisit' AND a.url = b.url
      AND a.date = b.date AND a.agrees AND a.claim = b.claim
      -- A revisit may have no head: it gets its original's.
      AND b.head_digest IN (a.head_digest, sha256('')), FALSE) AS is_restored
  FROM before b LEFT JOIN matched ON b.name = matched.name AND b.seq = matched.seq
  FULL JOIN after a ON matched.name_after = a.name AND matched.seq_after = a.seq
), originals AS (
  SELECT url, left(date, 19) AS second,
    min(body_digest) AS body_digest, max(body_digest) AS other
  FROM captures WHERE type IN ('response', 'resource') GROUP BY url, left(date, 19)
)
SELECT pairs.name, pairs.offset_before, pairs.offset_after, CASE
    WHEN is_further THEN NULL
    WHEN offset_before IS NULL THEN 'a record that was not there before'
    WHEN offset_after IS NULL THEN 'the record is gone'
    WHEN is_block OR is_restored THEN NULL
    WHEN NOT is_same AND NOT is_revisit THEN 'the record is another'
    WHEN NOT is_same AND pairs.body_digest IS NULL THEN 'its payload could not be read'
    WHEN NOT is_same AND originals.url IS NULL THEN 'a revisit of nothing'
    WHEN NOT is_same AND NOT coalesce(originals.body_digest = pairs.body_digest
      OR originals.other = pairs.body_digest, FALSE) THEN 'a revisit of another payload'
    WHEN type_after = 'revisit' AND NOT is_same
      AND originals.body_digest <> originals.other THEN 'a revisit of one of several'
    WHEN type_before = 'revisit' AND originals.url IS NULL AND was.url IS NOT NULL
      THEN 'a revisit has lost its original'
    END AS fault,
  CASE WHEN is_further THEN 'further' WHEN is_same THEN 'identical' WHEN is_block THEN 'anew'
    WHEN is_restored THEN 'restored' ELSE 'revisits' END AS became,
  pairs.payload_length
FROM pairs
LEFT JOIN originals ON pairs.refers_to_url = originals.url
  AND left(pairs.refers_to_date, 19) = originals.second
LEFT JOIN (SELECT DISTINCT url, left(date, 19) AS second FROM before
    WHERE type IN ('response', 'resource')) was
  ON pairs.refers_to_url = was.url AND left(pairs.refers_to_date, 19) = was.second
