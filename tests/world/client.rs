//! What the clients do: a random plan, and a connection in memory to follow it on.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use tokio::time::sleep;

use crate::request::Request;
use crate::socket::Socket;
use crate::support::Random;
use crate::support::plan::{ClientEnd, Finish, Pace, Piece, Plan};
use crate::support::tls::TlsClient;
use crate::tls;
use crate::world::{World, check};

/// Returns a random plan, and its requests. The client knows the token of this index.
pub(crate) fn plan(world: &World, life: u32, token: usize, random: &mut Random) -> (Plan, Vec<Request>) {
    let count = match random.below(100) {
        0..5 => 0,
        5..60 => 1,
        60..97 => random.within(2..6),
        // The answers to so many are more than the gateway writes at once.
        _ => random.within(20..601),
    };
    let mut wire = Vec::new();
    let mut requests = Vec::new();
    for index in 0..count {
        requests.push(Request::append(&mut wire, (life, index), token, count > 5, random));
    }
    let end = if random.permille(150) { random.within(0..wire.len() + 1) } else { wire.len() };
    let pieces = pieces(world, &requests, end, random);
    let finish = match random.below(100) {
        0..40 => Finish::Wait,
        40..65 => Finish::EndSide,
        65..80 => Finish::Close,
        80..90 => Finish::Reset,
        _ => Finish::Vanish,
    };
    let pace = match random.below(100) {
        0..75 => Pace::Prompt,
        75..90 => Pace::Slow { bytes: random.within(1..5_001), pause: random.pause_ms(1..301) },
        _ => Pace::Stops(random.within(0..2_001)),
    };
    let breaks_after = random.permille(100).then(|| random.pause_ms(0..5_000));
    (Plan { wire, pieces, finish, pace, breaks_after, is_rude: random.permille(200) }, requests)
}

fn pieces(world: &World, requests: &[Request], end: usize, random: &mut Random) -> Vec<Piece> {
    if requests.len() > 5 && end > 0 && random.permille(500) {
        return vec![Piece { end, ..Piece::default() }];
    }
    let is_pipelined = requests.len() > 5 || random.permille(400);
    let is_cut = random.permille(400);
    let longest_ms = random.pick(&[0, 0, 20, 500]);
    let mut pieces = Vec::new();
    let mut sent = 0;
    for (index, request) in requests.iter().enumerate() {
        let answers = if is_pipelined { 0 } else { index };
        let mut cuts = vec![request.end];
        if request.expects_continue {
            cuts.push(request.head_end);
        }
        if is_cut {
            let most = random.within(1..13);
            cuts.extend((0..most).map(|_| random.within(request.start..request.end + 1)));
        }
        cuts.sort_unstable();
        cuts.dedup();
        for cut in cuts.into_iter().map(|cut| cut.min(end)).filter(|cut| *cut > 0) {
            if cut > sent {
                let is_continued = request.expects_continue && sent == request.head_end;
                let pause = pause(world, longest_ms, random);
                pieces.push(Piece { end: cut, pause, answers, is_continued });
                sent = cut;
            }
        }
    }
    pieces
}

/// Returns how long a client waits before a piece: rarely about as long as a deadline.
fn pause(world: &World, longest_ms: usize, random: &mut Random) -> Duration {
    let timeouts = &world.limits.timeouts;
    if random.permille(30) {
        let deadline = random.pick(&[timeouts.head, timeouts.body, timeouts.idle]);
        return deadline * random.pick(&[300, 900, 999, 1000, 1001, 1100]) / 1000;
    }
    random.pause_ms(0..longest_ms + 1)
}

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
        let session = (world.limits.is_tls && random.permille(900)).then(|| RefCell::new(tls::session()));
        let longest_ms = random.pick(&[0, 0, 20, 500]);
        let pauses =
            [(); 2].map(|()| if session.is_some() { pause(world, longest_ms, random) } else { Duration::ZERO });
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
        let ledger = self.socket.ledger.borrow();
        [ledger.answers.len(), ledger.answers.len() + ledger.interim]
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
