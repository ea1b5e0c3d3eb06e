//! What the clients do: a random plan, and a connection in memory to follow it on, with TLS in some worlds.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use adapter_gateway::tls::session::Acceptor;
use adapter_gateway::tls::source::{CertificateSource, Occasion};
use rustls::client::Resumption;
use rustls::{ALL_VERSIONS, ClientConfig};
use tokio::time::sleep;

use crate::socket::Socket;
use crate::support::plan::ClientEnd;
use crate::support::planned::pause;
use crate::support::tls::{TlsClient, trusting};
use crate::support::{Pair, Random};
use crate::world::{World, check};

pub(crate) struct End {
    pub(crate) socket: Rc<Socket>,
    session: Option<RefCell<TlsClient>>,
    /// How long the client waits before it begins the handshake, and before it completes it.
    pauses: [Duration; 2],
    sent: Cell<usize>,
}

impl End {
    /// Where TLS is spoken, some clients speak http.
    pub(crate) fn new(socket: Rc<Socket>, world: &World, random: &mut Random) -> Self {
        let session =
            (world.limits.is_tls && random.permille(900)).then(|| RefCell::new(TlsClient::new(&SHARED.1, "localhost")));
        let longest_ms = random.pick(&[0, 0, 20, 500]);
        let pauses = [(); 2].map(|()| {
            if session.is_some() { pause(&world.limits.timeouts, longest_ms, random) } else { Duration::ZERO }
        });
        socket.ledger.borrow_mut().is_secure = session.is_some();
        Self { socket, session, pauses, sent: Cell::new(0) }
    }
}

impl ClientEnd for End {
    fn is_ready(&self) -> bool {
        self.session.as_ref().is_none_or(|session| !session.borrow_mut().connection().is_handshaking())
    }

    /// Sends records in two parts, with a pause between them.
    async fn send(&self, bytes: &[u8]) -> bool {
        let Some(session) = &self.session else { return self.socket.send(bytes).await };
        if !self.is_ready() {
            sleep(self.pauses[0]).await;
        }
        let records = session.borrow_mut().write(bytes).unwrap();
        self.sent.set(self.sent.get() + records.len());
        let (first, second) = records.split_at(records.len() / 3);
        if !self.socket.send(first).await {
            return false;
        }
        sleep(Duration::from_millis(7)).await;
        self.socket.send(second).await
    }

    async fn receive(&self, most: usize) -> usize {
        let (mut bytes, mut plaintext) = (Vec::new(), Vec::new());
        let received = self.socket.receive(most, &mut bytes).await;
        if let Some(session) = &self.session {
            let was_ready = self.is_ready();
            if !was_ready {
                sleep(self.pauses[1]).await;
            }
            let read = session.borrow_mut().read(&bytes, &mut plaintext);
            check!(self.socket.life, read.is_ok(), "the gateway speaks no TLS");
            self.socket.ledger.borrow_mut().take_answers(&plaintext);
            let records = session.borrow_mut().records().unwrap();
            if !was_ready && self.is_ready() {
                self.sent.set(self.sent.get() + records.len());
                self.socket.ledger.borrow_mut().handshake_end = Some(self.sent.get());
            }
            self.socket.send(&records).await;
        }
        received
    }

    fn answered(&self) -> [usize; 2] {
        self.socket.ledger.borrow().dialogue.answered()
    }

    async fn end(&self) {
        self.socket.ledger.borrow_mut().is_end_sent = true;
        if let Some(session) = &self.session {
            let records = session.borrow_mut().close().unwrap();
            self.socket.send(&records).await;
        }
        self.socket.end();
    }

    fn close(&self) {
        self.socket.ledger.borrow_mut().is_end_sent = true;
        self.socket.close();
    }

    fn reset(&self) {
        self.socket.ledger.borrow_mut().is_end_sent = true;
        self.socket.reset();
    }
}

/// What begins the sessions of all gateways and of all clients. The signatures of the key have one length, so that a
/// seed decides on the lengths of all records.
static SHARED: LazyLock<(Arc<Acceptor>, Arc<ClientConfig>)> = LazyLock::new(|| {
    let (_, pair) = Pair::kinds().into_iter().find(|(kind, _)| *kind == "Ed25519").unwrap();
    let files = pair.in_files();
    let source = CertificateSource::Files { certificate: files.certificate.clone(), key: files.key.clone() };
    let mut client = trusting([pair.leaf()], ALL_VERSIONS);
    client.resumption = Resumption::disabled();
    let identity = source.load(SystemTime::now(), Occasion::Start).unwrap().identity;
    (Arc::new(Acceptor::new(identity).unwrap()), Arc::new(client))
});

pub(crate) fn acceptor() -> Arc<Acceptor> {
    Arc::clone(&SHARED.0)
}
