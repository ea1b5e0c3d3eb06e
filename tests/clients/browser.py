"""Headless browsers that open a page of another origin. The page posts messages."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from gateway import check

PATIENCE_S = 60
CHROMIUM_FLAGS = [
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
    """Serves the page, gives it its tasks, and takes its results."""

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


def trust(store, authority):
    """Makes a store of trusted certificates, with the authority in it if there is one."""
    store.mkdir(parents=True)
    certutil = ["certutil", "-d", f"sql:{store}"]
    quiet = {"check": True, "stdout": subprocess.DEVNULL}
    subprocess.run([*certutil, "-N", "--empty-password"], **quiet)
    if authority:
        subprocess.run([*certutil, "-A", "-t", "C,,", "-n", "adapter-gateway", "-i", authority], **quiet)


def chromium(home, authority):
    """Returns the command of Chromium. On Linux it reads the trusted certificates from a store of its own."""
    trust(home / ".pki" / "nssdb", authority)
    return ["chromium", *CHROMIUM_FLAGS, f"--user-data-dir={home}/profile", "--remote-debugging-port=0"]


def firefox(home, authority):
    """Returns the command of Firefox. It reads the trusted certificates from the profile."""
    profile = home / "profile"
    trust(profile, authority)
    profile.joinpath("user.js").write_text('user_pref("network.proxy.type", 0);\n')
    return [firefox_command(), "--headless", "--no-remote", "--profile", profile]


def firefox_command():
    return shutil.which("firefox-esr") or shutil.which("firefox")


BROWSERS = {"Chromium": chromium, "Firefox": firefox}


@contextlib.contextmanager
def browsing(name, url, authority):
    with tempfile.TemporaryDirectory(prefix="adapter-gateway-ci-", ignore_cleanup_errors=True) as directory:
        home = Path(directory)
        process = subprocess.Popen(
            [*BROWSERS[name](home, authority), url],
            env={**os.environ, "HOME": directory, "XDG_CONFIG_HOME": f"{home}/config", "XDG_CACHE_HOME": f"{home}/cache"},
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


def run_page(name, tasks, authority):
    """Runs the page in this browser. Returns the status and the answer for each task (way, url, body)."""
    with PageServer(tasks) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        # The name is `localhost`, so that the origin differs from the gateway's not only in its port.
        with browsing(name, f"http://localhost:{server.server_port}/", authority):
            answered = server.answered.wait(PATIENCE_S)
        server.shutdown()
    check(answered, "the page sent no results within", PATIENCE_S, "s")
    return server.answers
