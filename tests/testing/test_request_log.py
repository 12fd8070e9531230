import json

from frontier.testing.oracle import Entry, LogWriter, RequestLog

WHOLE = Entry(1.5, 2.5, "h:1", "http://h:1/", "GET", 200, 9, "a", "é")
CUT = Entry(1.5, 2.5, "h:1", "http://h:1/", "GET", 200, 0, None, None, aborted=True)


def test_lines_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "requests.jsonl"
    for entry in (WHOLE, CUT):  # the second writer appends
        log = LogWriter(path)
        log.write(entry)
        log.close()
        log.close()

    assert RequestLog.read(path).entries == [WHOLE, CUT]


def test_only_an_aborted_request_says_so():
    assert json.loads(CUT.to_line())["aborted"] is True
    assert "aborted" not in json.loads(WHOLE.to_line())


def test_without_a_path_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = LogWriter(None)
    log.write(WHOLE)
    log.close()

    assert list(tmp_path.iterdir()) == []
