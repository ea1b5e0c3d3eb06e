"""The files on the machines: the configurations of `docs/examples` as they stand, keys and certificates."""

import shutil
import subprocess
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
SSH = Path("/etc/ssh")


def install(example, path):
    """Puts a configuration file of the documents where its program looks for it."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(EXAMPLES / example, path)


def secret(path, content):
    """Writes a file that only its owner can read."""
    Path(path).unlink(missing_ok=True)
    Path(path).touch(mode=0o600)
    Path(path).write_text(content)


def certificates(directory):
    """Makes an authority, and a certificate for each gateway and for haproxy. Returns the file of the authority."""
    authority, key = Path("/etc/haproxy/gateways-ca.pem"), directory / "ca.key"
    authority.parent.mkdir(exist_ok=True)
    new = "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -x509 -days 2".split()
    run(*new, "-subj", "/CN=machines", "-keyout", key, "-out", authority)
    for name in ("gateway-1", "gateway-2", "balancer"):
        own_key, own = directory / f"{name}.key", directory / f"{name}.crt"
        run(*new, "-CA", authority, "-CAkey", key, "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}",
            "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", own_key, "-out", own)  # fmt: skip
        secret(directory / f"{name}.pem", own.read_text() + own_key.read_text())
    secret("/etc/haproxy/balancer.pem", (directory / "balancer.pem").read_text())
    return str(authority)


def ssh(servers):
    """Prepares the machines of these names for a login of the user `tunnel`."""
    Path("/etc/passwd").write_text("root:x:0:0::/tmp:/bin/bash\ntunnel:x:1000:1000::/tmp:/bin/bash\n")
    Path("/run/sshd").mkdir(exist_ok=True)
    for name in ("tunnel_key", "host_key"):
        for path in SSH.glob(f"{name}*"):
            path.unlink()
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", SSH / name)
    shutil.copy(SSH / "tunnel_key.pub", SSH / "tunnel_authorized_keys")
    host_key = (SSH / "host_key.pub").read_text()
    SSH.joinpath("tunnel_known_hosts").write_text("".join(f"{name} {host_key}" for name in servers))
    # As Debian's own, but without PAM, which needs root.
    config = "HostKey /etc/ssh/host_key\nUsePAM no\nInclude /etc/ssh/sshd_config.d/*.conf\n"
    SSH.joinpath("sshd_config").write_text(config)
    install("ssh_config", SSH / "tunnel_config")
    install("sshd_tunnel.conf", SSH / "sshd_config.d/tunnel.conf")


def run(*command):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)
