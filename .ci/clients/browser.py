"""Headless Chromium with a page of another origin, which posts messages."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from gateway import check

PATIENCE_S = 60
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class PageServer(ThreadingHTTPServer):
    """Serves the page, hands it its tasks, and takes its answers."""

    daemon_threads = True

    def __init__(self, tasks):
        super().__init__(("127.0.0.1", 0), PageHandler)
        self.tasks = tasks
        self.answers = None
        self.answered = threading.Event()


class PageHandler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/":
            self._answer("text/html", Path(__file__).with_name("page.html").read_bytes())
        elif self.path == "/tasks":
            self._answer("application/json", json.dumps(self.server.tasks).encode())
        else:
            self.send_error(404)

    def do_POST(self):
        self.server.answers = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer("text/plain", b"")
        self.server.answered.set()

    def _answer(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def trust(home, certificate):
    """Puts the certificate where Chromium on Linux looks for those that its user trusts."""
    store = Path(home) / ".pki" / "nssdb"
    store.mkdir(parents=True)
    quiet = {"check": True, "stdout": subprocess.DEVNULL}
    subprocess.run(["certutil", "-d", f"sql:{store}", "-N", "--empty-password"], **quiet)
    subprocess.run(
        ["certutil", "-d", f"sql:{store}", "-A", "-t", "P,,", "-n", "adapter-gateway", "-i", certificate], **quiet
    )


@contextlib.contextmanager
def chromium(url, certificate):
    with tempfile.TemporaryDirectory(prefix="adapter-gateway-ci-", ignore_cleanup_errors=True) as home:
        if certificate:
            trust(home, certificate)
        process = subprocess.Popen(
            ["chromium", *FLAGS, f"--user-data-dir={home}/profile", "--remote-debugging-port=0", url],
            env={**os.environ, "HOME": home, "XDG_CONFIG_HOME": f"{home}/config", "XDG_CACHE_HOME": f"{home}/cache"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def run_page(tasks, certificate):
    """What the page got for each task (way, url, body): status and answer."""
    with PageServer(tasks) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        # `localhost`, so that the origin differs from the gateway's in more than its port.
        with chromium(f"http://localhost:{server.server_port}/", certificate):
            answered = server.answered.wait(PATIENCE_S)
        server.shutdown()
    check(answered, "the page told nothing within", PATIENCE_S, "s")
    return server.answers
