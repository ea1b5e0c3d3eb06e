//! Heads that were let in lately, so that a client which sends the same head again has it read and judged once.
//!
//! What a head says depends on its bytes alone, and whether it passes on the token and the policy besides. So the same
//! bytes under the same token pass again; what can change meanwhile (room, the bus) is asked anew each time. A head
//! that was refused is never kept: who has no token can neither fill this memory nor empty it.

use std::fmt;

use constant_time_eq::constant_time_eq;

use super::Request;
use crate::proto::token::Token;

/// Heads that are kept: those of some clients, or of one whose bodies differ in length.
const HEADS: usize = 8;

/// Bytes of a head up to which it is kept: a browser's.
const HEAD_BYTES: usize = 1024;

/// The heads that were let in lately. They hold the token: the `Debug` form hides them.
#[derive(Default)]
pub struct RecentHeads {
    /// The token that all of them show.
    token: Option<Token>,
    heads: Vec<Recent>,
    oldest: usize,
}

struct Recent {
    bytes: Box<[u8]>,
    request: Request,
}

impl RecentHeads {
    /// What the head at the start of `input` asks for, and its length; if it is one that was let in with `token`. The
    /// time taken tells the lengths of heads at most, never how much of one is right.
    pub(crate) fn find(&self, input: &[u8], token: &Token) -> Option<(usize, Request)> {
        if self.token.as_ref() != Some(token) {
            return None;
        }
        self.heads.iter().find_map(|recent| {
            let head = input.get(..recent.bytes.len()).filter(|head| head.ends_with(b"\r\n\r\n"))?;
            constant_time_eq(head, &recent.bytes).then_some((head.len(), recent.request))
        })
    }

    /// Keeps a head that was let in with `token`, in the place of the oldest.
    pub(crate) fn keep(&mut self, head: &[u8], token: &Token, request: Request) {
        if head.len() > HEAD_BYTES {
            return;
        }
        if self.token.as_ref() != Some(token) {
            *self = Self { token: Some(token.clone()), ..Self::default() };
        }
        let recent = Recent { bytes: head.into(), request };
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
    use crate::proto::http1::fields::{Expectation, Framing};
    use crate::proto::http1::response::Reply;

    const HEAD: &[u8] = b"POST /?token=t HTTP/1.1\r\n\r\n";

    fn token(token: &str) -> Token {
        Token::new(token).unwrap()
    }

    fn of_length(bytes: u64) -> Request {
        let (expectation, reply) = (Expectation::None, Reply::UNREAD);
        Request { framing: Framing::Length(bytes), expectation, private_network: false, reply }
    }

    fn length(recent: &RecentHeads, input: &[u8]) -> Option<Framing> {
        recent.find(input, &token("t")).map(|(_, request)| request.framing)
    }

    #[test]
    fn a_head_is_found_in_front_of_its_body_and_whole_alone() {
        let mut recent = RecentHeads::default();
        recent.keep(HEAD, &token("t"), of_length(1));
        let (bytes, _) = recent.find(&[HEAD, b"{}"].concat(), &token("t")).unwrap();
        assert_eq!(bytes, HEAD.len());
        assert_eq!(length(&recent, &HEAD[..HEAD.len() - 1]), None);
        assert_eq!(length(&recent, &HEAD.to_ascii_lowercase()), None);
        assert_eq!(length(&recent, b""), None);
    }

    #[test]
    fn no_head_outlives_its_token() {
        let mut recent = RecentHeads::default();
        recent.keep(HEAD, &token("t"), of_length(1));
        assert!(recent.find(HEAD, &token("other")).is_none());
        recent.keep(b"\r\n\r\n", &token("other"), of_length(2));
        assert_eq!(length(&recent, HEAD), None, "also when its token is back");
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut recent = RecentHeads::default();
        let head = |number: usize| format!("{number}\r\n\r\n").into_bytes();
        for number in 0..=HEADS {
            recent.keep(&head(number), &token("t"), of_length(number as u64));
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
        recent.keep(&head, &token("t"), of_length(1));
        assert_eq!(length(&recent, &head), None);
    }

    #[test]
    fn debug_shows_nothing_of_them() {
        let mut recent = RecentHeads::default();
        recent.keep(HEAD, &token("t"), of_length(1));
        assert_eq!(format!("{recent:?}"), "RecentHeads(1)");
    }
}
