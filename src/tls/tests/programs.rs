//! Programs that people use as clients. They trust the self-signed certificate and talk to a small server.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::client::Rig;
use crate::http::policy::Policy;
use crate::http::{Context, response};
use crate::sync::budget::Budget;
use crate::tls::session::{Acceptor, is_plain_http};
use crate::tls::source::{AUTHORITY_FILE, CERTIFICATE_FILE};

/// How long a program and its connection may take, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(300);

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n";

/// A server that answers one request on each connection, and the port of its two addresses.
struct Server {
    port: u16,
    directory: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let Rig { directory, acceptor } = Rig::new();
        let acceptor = Arc::new(acceptor);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let on_ipv6 = TcpListener::bind(("::1", port)).ok();
        for listener in [Some(listener), on_ipv6].into_iter().flatten() {
            let acceptor = Arc::clone(&acceptor);
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    // A client that refuses the certificate ends the connection, which is no failure of a test.
                    let _ = answer(stream.unwrap(), &acceptor);
                }
            });
        }
        Self { port, directory }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().into()
    }

    fn url(&self, host: &str) -> String {
        format!("https://{host}:{}/", self.port)
    }
}

fn answer(mut stream: TcpStream, acceptor: &Acceptor) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut session = acceptor.accept().unwrap();
    let (mut request, mut buffer, mut out) = (Vec::new(), [0; 4096], Vec::new());
    let mut first = true;
    while !request.ends_with(b"\r\n\r\n") {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        if std::mem::take(&mut first) && is_plain_http(&buffer[..length]) {
            let mut context = Context::new(Policy::default(), Budget::new(0), Arc::default(), ());
            response::https_only(&buffer[..length], &mut context);
            return stream.write_all(&context.answers);
        }
        let received = session.receive(&buffer[..length], &mut request);
        session.flush(&mut out);
        stream.write_all(&out)?;
        out.clear();
        if received.is_err() {
            return Ok(());
        }
    }
    session.send(ANSWER, &mut out);
    session.close_notify(&mut out);
    stream.write_all(&out)
}

/// Runs a program with a time limit. Returns `None` where the program is not installed, which fails the test where `CI`
/// is set.
fn run(program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Option<Output> {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|directory| directory.join(program).is_file()));
    if !found {
        assert!(std::env::var_os("CI").is_none(), "{program} is not installed");
        eprintln!("skipped: {program} is not installed");
        return None;
    }
    let output = Command::new("timeout")
        .arg(PATIENCE.as_secs().to_string())
        .arg(program)
        .args(arguments)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Some(output)
}

fn assert_hello(output: Option<Output>) {
    if let Some(output) = output {
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && shown.contains("hello"), "{output:?}");
    }
}

#[test]
fn curl_connects() {
    let server = Server::start();
    let trusted = server.path(CERTIFICATE_FILE);
    for host in ["localhost", "127.0.0.1", "[::1]"] {
        for version in [&["--tls-max", "1.2"][..], &["--tlsv1.3"], &["--http1.0"], &["--http1.1"], &["--http2"]] {
            let url = server.url(host);
            let arguments = [&["-sS", "--cacert", &trusted, &url], version].concat();
            assert_hello(run("curl", &arguments, &[]));
        }
    }
    assert_hello(run("curl", &["-sS", "--cacert", &server.path(AUTHORITY_FILE), &server.url("localhost")], &[]));
    if let Some(distrusting) = run("curl", &["-sS", &server.url("localhost")], &[]) {
        assert_eq!(distrusting.status.code(), Some(60), "{distrusting:?}");
    }
}

#[test]
fn curl_in_plain_http_gets_a_readable_answer() {
    let server = Server::start();
    let url = server.url("localhost").replace("https", "http");
    if let Some(output) = run("curl", &["-sS", "-i", &url], &[]) {
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.starts_with("HTTP/1.1 400 ") && shown.contains("use https://"), "{output:?}");
    }
}

#[test]
fn openssl_verifies_the_chain_strictly() {
    let server = Server::start();
    let [certificate, authority] = [CERTIFICATE_FILE, AUTHORITY_FILE].map(|name| server.path(name));
    for trusted in [&certificate, &authority] {
        for strict in [&[][..], &["-x509_strict"], &["-partial_chain"]] {
            let usual = ["verify", "-purpose", "sslserver", "-verify_ip", "127.0.0.1", "-CAfile", trusted];
            let Some(output) = run("openssl", &[&usual, strict, &[&certificate]].concat(), &[]) else { return };
            assert!(output.status.success(), "{output:?}");
        }
    }
}

#[test]
fn openssl_connects_and_resumes() {
    let server = Server::start();
    let sessions = server.path("session");
    let address = format!("localhost:{}", server.port);
    let trusted = server.path(CERTIFICATE_FILE);
    let usual = ["s_client", "-connect", &address, "-CAfile", &trusted, "-verify_return_error", "-verify_hostname"];
    let version = ["localhost", "-tls1_2", "-alpn", "http/1.1"];
    for (sessions_option, expected) in [("-sess_out", "New, TLSv1.2"), ("-sess_in", "Reused, TLSv1.2")] {
        let arguments = [&usual[..], &version, &[sessions_option, &sessions]].concat();
        let Some(output) = run("openssl", &arguments, &[]) else { return };
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains(expected) && shown.contains("ALPN protocol: http/1.1"), "{output:?}");
    }
}

#[test]
fn python_connects() {
    let script = "import ssl, sys, urllib.request\n\
        context = ssl.create_default_context(cafile=sys.argv[1])\n\
        context.verify_flags |= ssl.VERIFY_X509_STRICT\n\
        print(urllib.request.urlopen(sys.argv[2], context=context).read().decode())";
    let server = Server::start();
    for host in ["localhost", "127.0.0.1", "[::1]"] {
        for trusted in [CERTIFICATE_FILE, AUTHORITY_FILE] {
            assert_hello(run("python3", &["-c", script, &server.path(trusted), &server.url(host)], &[]));
        }
    }
}

#[test]
fn node_connects() {
    let script = "fetch(process.argv[1]).then(answer => answer.text()).then(console.log)";
    let server = Server::start();
    for host in ["localhost", "127.0.0.1", "[::1]"] {
        let trusted = server.path(CERTIFICATE_FILE);
        assert_hello(run("node", &["-e", script, &server.url(host)], &[("NODE_EXTRA_CA_CERTS", &trusted)]));
    }
}

/// mbedTLS and BoringSSL refuse an authority with name constraints, mbedTLS also one that is only sent.
#[test]
fn the_authority_has_no_name_constraints_and_is_not_sent() {
    let server = Server::start();
    let authority = server.path(AUTHORITY_FILE);
    let Some(output) = run("openssl", &["x509", "-noout", "-text", "-in", &authority], &[]) else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    for expected in ["CA:TRUE, pathlen:0", "Key Usage: critical", "Certificate Sign", "Subject Key Identifier"] {
        assert!(text.contains(expected), "{text}");
    }
    assert!(!text.contains("Name Constraints"), "{text}");
    assert!(!Path::new(&server.path("gateway-ca-key.pem")).exists());

    let address = format!("localhost:{}", server.port);
    let strict = ["s_client", "-x509_strict", "-verify_return_error", "-showcerts", "-CAfile", &authority, "-connect"];
    let Some(output) = run("openssl", &[&strict[..], &[&address]].concat(), &[]) else { return };
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("Verify return code: 0") && shown.matches("BEGIN CERTIFICATE").count() == 1, "{output:?}");
}
