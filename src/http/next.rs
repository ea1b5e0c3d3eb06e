//! What a connection must do next.

use crate::http::problem::{Problem, Unavailable};

/// What a connection must do next, after it wrote the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Read more.
    Read(Waiting),
    /// Call [`Connection::receive`](crate::http::Connection::receive) again with nothing: there are more requests to answer.
    Again,
    /// Close.
    Close(CloseReason),
}

/// What a connection waits for. Each has its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The first byte of the first request.
    First,
    /// The first byte of another request.
    Another,
    /// The rest of a head.
    Head,
    /// The rest of a body, to be kept or dropped.
    Body,
}

impl Waiting {
    /// Returns whether no request has begun.
    #[must_use]
    pub fn is_for_request(self) -> bool {
        matches!(self, Self::First | Self::Another)
    }
}

/// Why a connection closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client asked for it, by `Connection: close` or by its version of HTTP (RFC 9112 §9.3), or the gateway did,
    /// since it stops or opens other listeners.
    Asked,
    /// A request was refused, and the next one cannot be found, or is not wanted.
    Refused,
    /// The token was missing, repeated or wrong. So each guess costs a connection.
    Unauthorized,
    /// The client ended its side.
    EndOfInput,
    /// A deadline passed.
    TimedOut,
}

impl CloseReason {
    /// Returns why the connection must close after this problem, if it must.
    pub(super) fn after(problem: &Problem) -> Option<Self> {
        match problem {
            // Nobody knows where the next request begins (RFC 9112 §11.2), or the rest of the body is too long to be read.
            Problem::Head(_) | Problem::Framing(_) | Problem::TooLarge(_) => Some(Self::Refused),
            Problem::Unavailable(Unavailable::Disabled) => Some(Self::Refused),
            Problem::Timeout(_) => Some(Self::TimedOut),
            Problem::Token => Some(Self::Unauthorized),
            Problem::NotFound
            | Problem::Method
            | Problem::MediaType
            | Problem::ContentEncoding
            | Problem::Expectation
            | Problem::Unavailable(_)
            | Problem::Message(_) => None,
        }
    }
}
