//! Heads that were admitted lately, so that a head which a client sends again is read and judged once.
//!
//! What a head says depends on its bytes alone, and whether it is admitted on the token and the policy besides. So the
//! same bytes are admitted again as long as the token and the policy stay: [`crate::proto::Context`] forgets all heads
//! when the token changes. What can change meanwhile (room in the buffers, the bus) is checked for each request. A head
//! that was refused is never kept: a client without the token can neither fill this memory nor empty it.

use std::fmt;

use constant_time_eq::constant_time_eq;

use crate::proto::admission::Request;

/// Heads that are kept: those of some clients, or of one client whose bodies differ in length.
const HEADS: usize = 8;

/// Bytes of a head up to which it is kept: enough for the head of a browser.
const HEAD_BYTES: usize = 1024;

/// The heads that were admitted lately. They hold the token: the `Debug` form hides them.
#[derive(Default)]
pub(crate) struct RecentHeads {
    heads: Vec<RecentHead>,
    /// The index of the head that the next one replaces.
    oldest: usize,
}

struct RecentHead {
    bytes: Box<[u8]>,
    request: Request,
}

impl RecentHeads {
    /// Returns what the head at the start of `input` asks for, and what follows the head, if it was admitted lately.
    /// The time taken tells the lengths of heads at most, never how much of one is right.
    pub(crate) fn find<'i>(&self, input: &'i [u8]) -> Option<(Request, &'i [u8])> {
        self.heads.iter().find_map(|recent| {
            let (head, rest) = input.split_at_checked(recent.bytes.len())?;
            (head.ends_with(b"\r\n\r\n") && constant_time_eq(head, &recent.bytes)).then_some((recent.request, rest))
        })
    }

    /// Keeps a head that was admitted, in the place of the oldest.
    pub(crate) fn keep(&mut self, head: &[u8], request: Request) {
        if head.len() > HEAD_BYTES {
            return;
        }
        let recent = RecentHead { bytes: head.into(), request };
        match self.heads.get_mut(self.oldest) {
            Some(oldest) => *oldest = recent,
            None => self.heads.push(recent),
        }
        self.oldest = (self.oldest + 1) % HEADS;
    }
}

impl fmt::Debug for RecentHeads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecentHeads({})", self.heads.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::admission::Reply;
    use crate::proto::http1::fields::{Expectation, Framing};

    const HEAD: &[u8] = b"POST /?token=t HTTP/1.1\r\n\r\n";

    fn of_length(bytes: u64) -> Request {
        let (expectation, reply) = (Expectation::None, Reply::UNREAD);
        Request { framing: Framing::Length(bytes), expectation, private_network: false, reply }
    }

    fn length(recent: &RecentHeads, input: &[u8]) -> Option<Framing> {
        recent.find(input).map(|(request, _)| request.framing)
    }

    #[test]
    fn a_head_is_found_before_its_body_and_only_when_it_is_whole() {
        let mut recent = RecentHeads::default();
        recent.keep(HEAD, of_length(1));
        let input = [HEAD, b"{}"].concat();
        let (_, rest) = recent.find(&input).unwrap();
        assert_eq!(rest, b"{}");
        assert_eq!(length(&recent, &HEAD[..HEAD.len() - 1]), None);
        assert_eq!(length(&recent, &HEAD.to_ascii_lowercase()), None);
        assert_eq!(length(&recent, b""), None);
    }

    #[test]
    fn a_new_head_replaces_the_oldest() {
        let mut recent = RecentHeads::default();
        let head = |number: usize| format!("{number}\r\n\r\n").into_bytes();
        for number in 0..=HEADS {
            recent.keep(&head(number), of_length(number as u64));
        }
        assert_eq!(length(&recent, &head(0)), None);
        for number in 1..=HEADS {
            assert_eq!(length(&recent, &head(number)), Some(Framing::Length(number as u64)));
        }
    }

    #[test]
    fn a_head_of_unusual_size_is_not_kept() {
        let mut recent = RecentHeads::default();
        let head = [&[b'x'; HEAD_BYTES], &b"\r\n\r\n"[..]].concat();
        recent.keep(&head, of_length(1));
        assert_eq!(length(&recent, &head), None);
    }

    #[test]
    fn debug_shows_no_head() {
        let mut recent = RecentHeads::default();
        recent.keep(HEAD, of_length(1));
        assert_eq!(format!("{recent:?}"), "RecentHeads(1)");
    }
}
