import hashlib
import http.server
import threading

import pytest

from outland.errors import OutlandError
from outland.storage.raw_files import DataFolder, RawFile

CONTENT = b"smiles,y\nCC,1\n" * 1000
SHA = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def home():
    """A public home on this machine: serves CONTENT, cut short or not, or something else; it may fail at first."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            if self.path == "/flaky" and asked.count("/flaky") == 1:
                self.send_error(503)
                return
            body = b"changed" if self.path == "/wrong" else CONTENT
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            cut = self.path == "/short" and asked.count("/short") == 1
            self.wfile.write(body[:200] if cut else body)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.mark.parametrize("path", ["/plain", "/flaky", "/short"])
def test_missing_files_are_fetched_once(tmp_path, home, path):
    url, asked = home
    file = RawFile("set/a.csv", None, url + path)
    fetched = DataFolder(tmp_path).fetch(file)
    assert fetched == tmp_path / "set/a.csv"
    assert fetched.read_bytes() == CONTENT
    count = len(asked)
    DataFolder(tmp_path).fetch(file)
    assert len(asked) == count
    assert [p.name for p in (tmp_path / "set").iterdir()] == ["a.csv"]
    (tmp_path / "mine").touch()
    assert fetched.stat().st_mode == (tmp_path / "mine").stat().st_mode  # others may read it, if the umask lets them


def test_wrong_content_is_refused_and_leaves_nothing(tmp_path, home):
    url, asked = home
    with pytest.raises(OutlandError, match=rf"set/a.csv \(SHA-256 {SHA}\) is missing.*put it at {tmp_path}/set/a.csv"):
        DataFolder(tmp_path).fetch(RawFile("set/a.csv", SHA, url + "/wrong"))
    assert len(asked) == 3
    assert list((tmp_path / "set").iterdir()) == []


def test_what_could_not_be_fetched_is_not_asked_for_again_until_it_is_there(tmp_path, home):
    (url, asked), folder = home, DataFolder(tmp_path)
    file = RawFile("set/a.csv", SHA, url + "/wrong")
    errors = []
    for _ in range(3):
        with pytest.raises(OutlandError, match="is missing") as caught:
            folder.fetch(file)
        errors.append(str(caught.value))
    assert len(asked) == 3  # the first time, with two retries
    assert len(set(errors)) == 1
    (tmp_path / "set/a.csv").write_bytes(CONTENT)
    assert folder.fetch(file) == tmp_path / "set/a.csv"


def test_without_network_the_error_says_what_to_put_where(tmp_path):
    file = RawFile("set/a.csv", SHA, "http://127.0.0.1:9/a.csv")
    with pytest.raises(OutlandError, match=rf"{SHA}.*127.0.0.1:9.*{tmp_path}/set/a.csv.*--data"):
        DataFolder(tmp_path).fetch(file)


def test_a_changed_file_of_the_users_is_named_and_one_of_ours_is_fetched_again(tmp_path, home, monkeypatch):
    monkeypatch.delenv("OUTLAND_DATA", raising=False)
    monkeypatch.setenv("OUTLAND_CACHE", str(tmp_path))
    url, _ = home
    file = RawFile("a.csv", SHA, url + "/plain")
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/a.csv").write_bytes(CONTENT[:-1])
    with pytest.raises(OutlandError, match="is not the published file"):
        DataFolder(tmp_path / "raw").fetch(file)
    assert DataFolder().fetch(file).read_bytes() == CONTENT


def test_folder_by_option_then_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("OUTLAND_DATA", str(tmp_path / "named"))
    assert DataFolder().folder == tmp_path / "named"
    assert DataFolder(tmp_path / "option").folder == tmp_path / "option"
