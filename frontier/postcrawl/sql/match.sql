-- Pairs of a record before and one after, by $key: each record is in one pair. Of several
-- records with the same key, as in copies of a file, the first is paired with the first.
--
-- before, after   the records of both sides, with the name of their file
-- matched         the pairs that were found by other keys

WITH b AS (
  SELECT *, row_number() OVER (PARTITION BY $key ORDER BY head_digest, name, seq) AS nth
  FROM before ANTI JOIN (SELECT name, seq FROM matched) found USING (name, seq)
), a AS (
  SELECT *, row_number() OVER (PARTITION BY $key ORDER BY head_digest, name, seq) AS nth
  FROM after ANTI JOIN (SELECT name_after AS name, seq_after AS seq FROM matched) found
    USING (name, seq)
)
SELECT name, seq, name_after, seq_after FROM matched
UNION ALL
SELECT b.name, b.seq, a.name, a.seq FROM b JOIN a USING ($key, nth)
