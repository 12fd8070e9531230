import json

from frontier.testing.oracle import Entry, LogWriter, RequestLog

WHOLE = Entry(1.5, 2.5, "h:1", "http://h:1/", "GET", 200, 9, "a", "é")
CUT = Entry(1.5, 2.5, "h:1", "http://h:1/", "GET", 200, 0, None, None, aborted=True)


def test_log_lines_are_read_back_unchanged(tmp_path):
    path = tmp_path / "requests.jsonl"
    for entry in (WHOLE, CUT):  # the second writer appends
        log = LogWriter(path)
        log.write(entry)
        log.close()
        log.close()

    assert RequestLog.read(path).entries == [WHOLE, CUT]


def test_only_aborted_requests_are_marked():
    assert json.loads(CUT.to_line())["aborted"] is True
    assert "aborted" not in json.loads(WHOLE.to_line())


def test_log_without_a_path_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = LogWriter(None)
    log.write(WHOLE)
    log.close()

    assert list(tmp_path.iterdir()) == []
