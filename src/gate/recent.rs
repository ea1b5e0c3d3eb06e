//! Heads that were let in lately, so that a client which sends the same head again has it read and judged once.
//!
//! What a head says depends on its octets alone, and whether it passes on the token and the policy besides. So the same
//! octets under the same token pass again; what can change meanwhile (room, the bus) is asked anew each time. A head
//! that was refused is never kept: who has no token can neither fill this memory nor empty it.

use std::fmt;

use constant_time_eq::constant_time_eq;

use super::Request;
use crate::token::Token;

/// Heads that are kept: those of some clients, or of one whose bodies differ in length.
const HEADS: usize = 8;

/// Octets of a head up to which it is kept: a browser's.
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
    octets: Box<[u8]>,
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
            let head = input.get(..recent.octets.len()).filter(|head| head.ends_with(b"\r\n\r\n"))?;
            constant_time_eq(head, &recent.octets).then_some((head.len(), recent.request))
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
        let recent = Recent { octets: head.into(), request };
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
