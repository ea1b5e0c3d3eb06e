//! Random plans: the requests of a client, what is wrong with each, and in which pieces they come.

use adapter_gateway::terms::limits::Timeouts;

use super::plan::{Finish, Pace, Piece, Plan};
use super::*;

pub(crate) const TOPIC: &str = "adapter/nodes/data";
/// Bytes of a refused body that the gateway reads in order to go on.
const DISCARD_BYTES: usize = 64 * 1024;
/// The most requests that differ from each other: more of them are small and right.
const FEW: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Message(Fault),
    Head,
    Options,
    MalformedChunk,
}

/// One request, as it stands in what a client sends.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) kind: Kind,
    pub(crate) number: u32,
    pub(crate) token: usize,
    /// Where its head ends and where it ends, in what the client sends by its plan.
    pub(crate) start: usize,
    pub(crate) head_end: usize,
    pub(crate) end: usize,
    is_chunked: bool,
    pub(crate) expects_continue: bool,
    /// Whether the client asks that the connection close behind it.
    pub(crate) is_last: bool,
    /// The bytes of its body, without the framing.
    pub(crate) body_bytes: usize,
    pub(crate) payload: String,
}

/// What decides on a request beside its bytes: the token in force, if the API is on, and whether a hub is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) token: Option<usize>,
    pub(crate) is_connected: bool,
}

/// Who sends the requests of a plan.
pub(crate) struct Author<'a> {
    pub(crate) client: u32,
    /// Returns the number of the next request. Client and number are in its payload.
    pub(crate) next_number: &'a mut dyn FnMut() -> u32,
    /// The token that the client knows, and its number.
    pub(crate) token: (usize, String),
    pub(crate) max_body_bytes: usize,
    pub(crate) timeouts: Timeouts,
    /// The faults that no request can have where it is sent.
    pub(crate) excluded: &'static [Fault],
}

impl Author<'_> {
    /// Returns so many right requests, all sent at once, and the plan to go on behind their answers.
    pub(crate) fn right(&mut self, count: usize, random: &mut Random) -> (Plan, Vec<Planned>) {
        let (mut wire, mut requests) = (Vec::new(), Vec::new());
        for _ in 0..count {
            requests.push(self.append(&mut wire, Kind::Message(Fault::None), false, random));
        }
        (Plan::at_once(wire, Finish::GoOn(count)), requests)
    }

    pub(crate) fn plan(&mut self, random: &mut Random) -> (Plan, Vec<Planned>) {
        let count = match random.below(100) {
            0..5 => 0,
            5..60 => 1,
            60..97 => random.within(2..FEW + 1),
            // The answers to so many are more than the gateway writes at once.
            _ => random.within(20..601),
        };
        let (mut wire, mut requests) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let is_one_of_many = count > FEW;
            let kind = if is_one_of_many { Kind::Message(Fault::None) } else { self.kind(random) };
            requests.push(self.append(&mut wire, kind, is_one_of_many, random));
        }
        let end = if random.permille(150) { random.within(0..wire.len() + 1) } else { wire.len() };
        let pieces = self.pieces(&requests, end, random);
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

    fn kind(&self, random: &mut Random) -> Kind {
        match random.below(100) {
            0..75 => Kind::Message(Fault::None),
            75..95 => {
                let faults = LADDER.iter().map(|row| row.0).filter(|fault| !self.excluded.contains(fault));
                Kind::Message(random.pick(&faults.collect::<Vec<_>>()))
            }
            _ => random.pick(&[Kind::Head, Kind::Options, Kind::MalformedChunk]),
        }
    }

    /// Appends a request to what the client sends.
    fn append(&mut self, wire: &mut Vec<u8>, kind: Kind, is_one_of_many: bool, random: &mut Random) -> Planned {
        let fault = if let Kind::Message(fault) = kind { fault } else { Fault::None };
        let is_framed = matches!(fault, Fault::TransferCoding | Fault::LargeBody);
        let is_chunked = kind == Kind::MalformedChunk || (!is_framed && random.permille(200));
        let filler = match random.below(100) {
            _ if is_one_of_many => 0,
            0..80 => random.within(0..201),
            80..95 => random.within(200..20_001),
            _ => random.within(20_000..200_001),
        };
        let (number, (token, text)) = ((self.next_number)(), &self.token);
        let payload = payload(self.client, number, filler);
        let (method, body) = match kind {
            Kind::Head => ("HEAD", String::new()),
            Kind::Options => ("OPTIONS", String::new()),
            Kind::Message(_) | Kind::MalformedChunk => ("POST", body(&payload)),
        };
        let request = Request::post(&format!("/api/message?token={text}"), body).method(method);
        let mut request = fault.put_into(request, self.max_body_bytes);
        let body_bytes = request.body().len();
        let expects_continue = fault != Fault::Expectation && body_bytes > 0 && random.permille(60);
        let is_last = !is_one_of_many && random.permille(60);
        if expects_continue {
            request = request.field("Expect", "100-continue");
        }
        if is_last {
            request = request.field("Connection", "close");
        }
        if is_chunked {
            // A body of a hundred chunks shows what one of a thousand would.
            let most = random.within(1..body_bytes.max(1) + 1);
            request = request.chunked(most.max(body_bytes / 100 + 1));
        }
        if kind == Kind::MalformedChunk {
            request = request.with_body(b"zz\r\n".to_vec());
        }
        let start = wire.len();
        wire.extend(request.head());
        let head_end = wire.len();
        wire.extend(request.body());
        let (end, token) = (wire.len(), *token);
        Planned {
            kind,
            number,
            token,
            start,
            head_end,
            end,
            is_chunked,
            expects_continue,
            is_last,
            body_bytes,
            payload,
        }
    }

    fn pieces(&self, requests: &[Planned], end: usize, random: &mut Random) -> Vec<Piece> {
        let are_many = requests.len() > FEW;
        if are_many && end > 0 && random.permille(500) {
            return vec![Piece { end, ..Piece::default() }];
        }
        let is_pipelined = are_many || random.permille(400);
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
                    // The pauses of so many requests would last for minutes together.
                    let pause = if are_many { Duration::ZERO } else { pause(&self.timeouts, longest_ms, random) };
                    pieces.push(Piece { end: cut, pause, answers, is_continued });
                    sent = cut;
                }
            }
        }
        pieces
    }
}

/// Returns how long a client waits before a piece: rarely about as long as a deadline.
pub(crate) fn pause(timeouts: &Timeouts, longest_ms: usize, random: &mut Random) -> Duration {
    if random.permille(30) {
        let deadline = random.pick(&[timeouts.head, timeouts.body, timeouts.idle]);
        return deadline * random.pick(&[300, 900, 999, 1000, 1001, 1100]) / 1000;
    }
    random.pause_ms(0..longest_ms + 1)
}

/// Returns the payload of a message, by which it is known again.
pub(crate) fn payload(client: u32, number: u32, filler: usize) -> String {
    format!(r#"{{"node_id":"{client}","content":"{number} {}"}}"#, "f".repeat(filler))
}

pub(crate) fn body(payload: &str) -> String {
    format!(r#"{{"topic":"{TOPIC}","payload":{payload}}}"#)
}

/// Returns the client and the number of the request that a payload belongs to.
pub(crate) fn origin(payload: &[u8]) -> Option<(u32, u32)> {
    let text = str::from_utf8(payload).ok()?;
    let (client, rest) = text.strip_prefix(r#"{"node_id":""#)?.split_once(r#"","content":""#)?;
    let (number, _) = rest.split_once(' ')?;
    Some((client.parse().ok()?, number.parse().ok()?))
}

impl Planned {
    pub(crate) fn is_message(&self) -> bool {
        self.kind == Kind::Message(Fault::None)
    }

    /// Returns whether its body is longer than what the gateway reads of a refused one.
    fn has_long_body(&self) -> bool {
        self.end - self.head_end > DISCARD_BYTES
    }

    /// Returns whether its body has no end that the gateway would look for behind this answer.
    pub(crate) fn cannot_go_on(&self, answer: &Answer) -> bool {
        let has_no_end = self.kind == Kind::MalformedChunk || self.has_long_body();
        answer.status != 200 && self.is_chunked && has_no_end
    }

    pub(crate) fn has_length(&self) -> bool {
        !self.is_chunked
    }

    /// Checks whether this answer ends the connection. `may_end` tells whether anything beside the request may.
    pub(crate) fn check_persistence(&self, answer: &Answer, may_end: bool) -> Result<(), String> {
        let is_in_doubt = match self.kind {
            Kind::Message(fault) => fault < Fault::Path || matches!(fault, Fault::LargeBody | Fault::Expectation),
            kind => kind == Kind::MalformedChunk,
        };
        let may_close = may_end
            || self.is_last
            || is_in_doubt
            || matches!(answer.kind.as_str(), "disabled" | "token" | "https-only")
            || (answer.status != 200 && (self.expects_continue || self.has_long_body()));
        let must_close = self.is_last || answer.status == 401;
        match answer.closes() {
            true if !may_close => Err(format!("{answer:?} closes for no reason")),
            false if must_close => Err(format!("{answer:?} stays open")),
            _ => Ok(()),
        }
    }

    /// Returns whether it may have this answer: its head was judged in one of these moments, its body not before. The
    /// caller tells whether the buffers of bodies may lack room, and whether the queue may be full.
    pub(crate) fn may_have(&self, answer: &Answer, moments: &[Moment], [lacks_room, is_full]: [bool; 2]) -> bool {
        let given = (answer.status, answer.kind.as_str());
        let fault = match self.kind {
            Kind::Head => return answer.status == 405,
            Kind::Options => return answer.status == 204,
            // It shows when the head has been judged.
            Kind::MalformedChunk => Fault::NotJson,
            Kind::Message(fault) => fault,
        };
        if fault < Fault::Token {
            return given == fault.answer();
        }
        let holds = |moment: &Moment| moment.token == Some(self.token) && fault != Fault::Token;
        match given {
            (503, "disabled") => return moments.iter().any(|moment| moment.token.is_none()),
            (401, "token") => return moments.iter().any(|moment| moment.token.is_some() && !holds(moment)),
            _ => {}
        }
        let Some(admitted) = moments.iter().position(holds) else { return false };
        if fault < Fault::NoHub {
            return given == fault.answer();
        }
        match given {
            (503, "bus-not-connected") => moments[admitted..].iter().any(|moment| !moment.is_connected),
            (503, "queue-full" | "subscriber-stalled") => is_full,
            (503, "buffers-full") => lacks_room,
            (400, "malformed-request") => self.kind == Kind::MalformedChunk,
            _ => self.kind == Kind::Message(fault) && given == fault.answer(),
        }
    }
}

/// What a client asks on its connection, and what it is answered.
#[derive(Default)]
pub(crate) struct Dialogue {
    pub(crate) requests: Vec<Planned>,
    pub(crate) answers: Vec<Answer>,
    pub(crate) interim: usize,
    /// What has come, and is no whole answer.
    pub(crate) unread: Vec<u8>,
}

impl Dialogue {
    pub(crate) fn of(requests: Vec<Planned>) -> Self {
        Self { requests, ..Self::default() }
    }

    /// Returns the next answer and its request; an error if it is wrong whatever was asked. Interim ones are counted.
    pub(crate) fn next(&mut self) -> Result<Option<(&Planned, &Answer)>, String> {
        loop {
            let request = self.requests.get(self.answers.len());
            let is_head = request.is_some_and(|request| request.kind == Kind::Head);
            let Some((answer, length)) = Answer::take(&self.unread, !is_head)? else { return Ok(None) };
            self.unread.drain(..length);
            answer.check()?;
            if self.is_closing() {
                return Err("an answer behind the last one".into());
            }
            let request = request.ok_or("an answer without a request")?;
            if answer.status != 100 {
                self.answers.push(answer);
                return Ok(self.answers.last().map(|answer| (request, answer)));
            }
            if !request.expects_continue {
                return Err("100 for a request that expects none".into());
            }
            self.interim += 1;
        }
    }

    /// Returns how many answers have come, without and with those that are interim.
    pub(crate) fn answered(&self) -> [usize; 2] {
        [self.answers.len(), self.answers.len() + self.interim]
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.answers.last().is_some_and(Answer::closes)
    }

    /// Returns whether the body of the last refused request has no end that the gateway would look for.
    pub(crate) fn cannot_go_on(&self) -> bool {
        let last = self.answers.last().map(|answer| (&self.requests[self.answers.len() - 1], answer));
        last.is_some_and(|(request, answer)| request.cannot_go_on(answer))
    }
}
