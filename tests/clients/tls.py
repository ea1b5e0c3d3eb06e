"""Programs that each post with another TLS library. Each takes the gateway, the URL and the bodies, and returns the
answers. They trust the files that the gateway made."""

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from browser import trust
from gateway import check

HERE = Path(__file__).resolve().parent


def answers(command, gateway, url, bodies):
    """Sends each request through the program that `command` returns."""
    target = urlsplit(url)
    found = []
    for body in bodies:
        head = f"POST {target.path}?{target.query} HTTP/1.1\r\nHost: localhost:{target.port}\r\nConnection: close\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body.encode())}\r\n\r\n"
        program = command(gateway)
        reading, writing = os.pipe()
        with os.fdopen(reading) as stdin, os.fdopen(writing, "wb") as request:
            request.write((head + body).encode())
            request.flush()
            # Botan's command ends with its stdin, also before the answer.
            if program[0] != "botan":
                request.close()
            done = subprocess.run(program, stdin=stdin, capture_output=True, timeout=60)
        # Programs print about TLS before and behind the answer.
        _, begin, rest = done.stdout.partition(b"HTTP/1.1 ")
        check(begin, program[0], "got no answer and ended with", done.returncode, done.stdout, done.stderr)
        head, _, content = rest.partition(b"\r\n\r\n")
        answer, _ = json.JSONDecoder().raw_decode(content.decode(errors="replace"))
        found.append([int(head.split()[0]), answer])
        # Botan's command goes on after a certificate that it refuses.
        refused = b"validation status:" in done.stdout and b"validation status: Verified" not in done.stdout
        check(not refused, program[0], "does not trust the certificate", done.stdout)
    return found


def compiled(gateway, name, *libraries):
    """Compiles the C program of this name, unless that was done, and returns its path."""
    path = gateway.directory / name
    if not path.exists():
        command = ["cc", "-Wall", "-Werror", "-o", path, HERE / f"{name}.c", *libraries]
        subprocess.run(command, check=True, timeout=120)
    return path


def mbedtls(gateway, *authorities):
    return [compiled(gateway, "mbedtls", "-lmbedtls", "-lmbedx509", "-lmbedcrypto"), str(gateway.port), *authorities]


def wolfssl(gateway):
    return [compiled(gateway, "wolfssl", "-lwolfssl"), str(gateway.port), gateway.certificate]


def botan(gateway):
    trusted = [f"--trusted-cas={gateway.certificate}", "--skip-system-cert-store"]
    return ["botan", "tls_client", "localhost", f"--port={gateway.port}", *trusted]


def gnutls(gateway):
    return ["gnutls-cli", f"--x509cafile={gateway.certificate}", f"--port={gateway.port}", "localhost"]


def openssl(gateway):
    strict = ["-x509_strict", "-verify_return_error", "-verify_hostname", "localhost", "-CAfile", gateway.certificate]
    return ["openssl", "s_client", "-quiet", *strict, "-connect", f"localhost:{gateway.port}"]


def nss(gateway):
    store = gateway.directory / "nss"
    if not store.exists():
        trust(store, gateway.authority)
    # It does not see that a pipe ends, so it gets a file.
    from_file = ["sh", "-c", 'cat >"$0"; exec tstclnt "$@" <"$0"', gateway.directory / "nss-request"]
    return [*from_file, "-4", "-h", "localhost", "-p", str(gateway.port), "-d", f"sql:{store}"]


COMMANDS = {
    "mbedTLS": lambda gateway: mbedtls(gateway, gateway.certificate),
    "mbedTLS without verification": mbedtls,
    "wolfSSL with TLS 1.2": wolfssl,
    "Botan": botan,
    "GnuTLS": gnutls,
    "OpenSSL, strict": openssl,
    "NSS": nss,
}
CLIENTS = {name: functools.partial(answers, command) for name, command in COMMANDS.items()}

# Pairs that the gateway made before have an authority with name constraints. These accept it.
ACCEPT_CONSTRAINTS = {"GnuTLS", "OpenSSL, strict", "NSS", "Node fetch", "Python requests", "aiohttp"}


def installed():
    """Returns for each client whether it is installed."""
    commands = {"Botan": "botan", "GnuTLS": "gnutls-cli", "OpenSSL, strict": "openssl", "NSS": "tstclnt"}
    headers = {"mbedTLS": "mbedtls", "mbedTLS without verification": "mbedtls", "wolfSSL with TLS 1.2": "wolfssl"}
    found = {name: shutil.which(command) for name, command in commands.items()}
    return found | {name: Path("/usr/include", library, "ssl.h").exists() for name, library in headers.items()}


def constrained_pair(directory):
    """Makes a pair as the gateway made it before: its authority is constrained to the names of the gateway."""
    usual = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "820"]
    permitted = ["DNS:localhost", "IP:127.0.0.1/255.255.255.255", f"IP:::1/{':'.join(['ffff'] * 8)}"]
    authority = {
        "basicConstraints": "critical,CA:TRUE,pathlen:0",
        "keyUsage": "critical,keyCertSign",
        "nameConstraints": "critical," + ",".join(f"permitted;{name}" for name in permitted),
    }
    gateway = {
        "basicConstraints": "critical,CA:FALSE",
        "keyUsage": "critical,digitalSignature",
        "extendedKeyUsage": "serverAuth",
        "subjectAltName": "DNS:localhost,IP:127.0.0.1,IP:::1",
    }
    signed_by = ["-CA", "gateway-ca.pem", "-CAkey", "authority-key.pem"]
    for name, out, key, extensions, signer in [
        ("adapter-gateway", "gateway-ca.pem", "authority-key.pem", authority, []),
        ("localhost", "gateway-cert.pem", "gateway-key.pem", gateway, signed_by),
    ]:
        added = [word for key_value in extensions.items() for word in ("-addext", "=".join(key_value))]
        command = [*usual, "-subj", f"/CN={name}", "-out", out, "-keyout", key, *added, *signer]
        subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=60)
    with (directory / "gateway-cert.pem").open("a") as certificate:
        certificate.write((directory / "gateway-ca.pem").read_text())
