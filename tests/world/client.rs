//! What a client does with its connection: what it sends and when, how it reads, and how it ends.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::random::Random;
use crate::request::Request;
use crate::socket::Socket;
use crate::tls;
use crate::tls_client::TlsClient;
use crate::world::{World, check, note};

/// How long a client waits for an answer before it sends on.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes that are sent at once, after a pause.
struct Piece {
    end: usize,
    pause: Duration,
    /// Wait for so many answers first.
    answers: usize,
    /// Wait for 100, or for an answer, first.
    is_continued: bool,
}

/// What the client does once it has sent everything.
#[derive(Clone, Copy)]
enum Finish {
    /// It waits for the gateway.
    Wait,
    /// It ends its side and goes on reading.
    EndSide,
    Close,
    Reset,
    /// It neither reads nor answers any more.
    Vanish,
}

#[derive(Clone, Copy)]
enum Pace {
    Prompt,
    Slow {
        bytes: usize,
        pause: Duration,
    },
    /// It reads nothing behind so many bytes.
    Stops {
        after: usize,
    },
}

/// What a client will do.
pub(crate) struct Plan {
    wire: Vec<u8>,
    pieces: Vec<Piece>,
    finish: Finish,
    pace: Pace,
    /// When the connection breaks, whatever the client does.
    breaks_after: Option<Duration>,
    /// What the client speaks TLS with, if it does.
    session: Option<RefCell<TlsClient>>,
    /// Whether the client goes on sending when the gateway has ended its side.
    is_rude: bool,
}

impl Plan {
    /// Returns a random plan, and its requests. The client knows the token of this index.
    pub(crate) fn new(world: &World, life: u32, token: usize, random: &mut Random) -> (Self, Vec<Request>) {
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
            _ => Pace::Stops { after: random.within(0..2_001) },
        };
        let breaks_after = random.permille(100).then(|| random.pause_ms(0..5_000));
        let is_rude = random.permille(200);
        // Where TLS is spoken, some clients speak http.
        let session = (world.limits.is_tls && random.permille(900)).then(|| RefCell::new(tls::session()));
        (Self { wire, pieces, finish, pace, breaks_after, session, is_rude }, requests)
    }
}

/// Divides what the client sends.
fn pieces(world: &World, requests: &[Request], end: usize, random: &mut Random) -> Vec<Piece> {
    if requests.len() > 5 && end > 0 && random.permille(500) {
        return vec![Piece { end, pause: Duration::ZERO, answers: 0, is_continued: false }];
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

pub(crate) async fn live(socket: &Rc<Socket>, plan: Plan) {
    let Plan { wire, pieces, finish, pace, breaks_after, session, is_rude } = plan;
    // It sends and receives at the same time.
    let session = session.as_ref();
    let records = |session: &RefCell<TlsClient>, plaintext: &[u8]| session.borrow_mut().write(plaintext).unwrap();
    let answered = Notify::new();
    let send = async {
        if let Some(session) = session {
            socket.send(&records(session, &[])).await;
            while session.borrow_mut().connection().is_handshaking() {
                answered.notified().await;
            }
        }
        for (index, piece) in pieces.iter().enumerate() {
            let start = index.checked_sub(1).map_or(0, |before| pieces[before].end);
            let is_due = || {
                let ledger = socket.ledger.borrow();
                let is_answered = ledger.answers.len() >= piece.answers;
                is_answered && (!piece.is_continued || ledger.interim > 0 || ledger.answers.len() > piece.answers)
            };
            let wait = async {
                while !is_due() {
                    answered.notified().await;
                }
            };
            let _ = timeout(PATIENCE, wait).await;
            if !piece.pause.is_zero() {
                sleep(piece.pause).await;
            }
            let plaintext = &wire[start..piece.end];
            let is_sent = match session {
                None => socket.send(plaintext).await,
                Some(session) => send_records(socket, &records(session, plaintext)).await,
            };
            if !is_sent {
                return;
            }
        }
        match finish {
            Finish::Wait => {}
            Finish::EndSide => {
                if let Some(session) = session {
                    let records = session.borrow_mut().close().unwrap();
                    socket.send(&records).await;
                }
                socket.end();
            }
            Finish::Close => socket.close(),
            Finish::Reset => socket.reset(),
            Finish::Vanish => {
                note!(socket.life, "vanished", "");
                std::future::pending().await
            }
        }
    };
    let receive = async {
        let mut left = match pace {
            Pace::Stops { after } => after,
            Pace::Prompt | Pace::Slow { .. } => usize::MAX,
        };
        let mut bytes = Vec::new();
        while left > 0 {
            let most = if let Pace::Slow { bytes, .. } = pace { bytes } else { left };
            bytes.clear();
            let received = socket.receive(most.min(left), &mut bytes).await;
            if let Some(session) = session {
                let mut plaintext = Vec::new();
                let read = session.borrow_mut().read(&bytes, &mut plaintext);
                check!(socket.life, read.is_ok(), "the gateway speaks no TLS");
                socket.ledger.borrow_mut().take_answers(&plaintext);
                socket.send(&records(session, &[])).await;
            }
            answered.notify_one();
            if received == 0 {
                if !is_rude {
                    socket.close();
                }
                return;
            }
            left = left.saturating_sub(received);
            if let Pace::Slow { pause, .. } = pace {
                sleep(pause).await;
            }
        }
        std::future::pending::<()>().await
    };
    let broken = async {
        match breaks_after {
            Some(after) => sleep(after).await,
            None => std::future::pending().await,
        }
        socket.reset();
    };
    tokio::select! {
        biased;
        _ = async { tokio::join!(send, receive) } => socket.close(),
        () = broken => {}
    }
}

/// Sends records in two parts, with a pause between them. Returns whether the gateway may still read.
async fn send_records(socket: &Rc<Socket>, records: &[u8]) -> bool {
    let (first, second) = records.split_at(records.len() / 3);
    if !socket.send(first).await {
        return false;
    }
    sleep(Duration::from_millis(7)).await;
    socket.send(second).await
}
