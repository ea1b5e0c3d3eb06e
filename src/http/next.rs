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
    /// The client asked for it, by `Connection: close` or by its version of HTTP (RFC 9112 §9.3).
    ClientAsked,
    /// The gateway stops, or opens other listeners.
    Stopping,
    /// The REST API was switched off.
    Disabled,
    /// The token was missing, repeated or wrong. So each guess costs a connection.
    Unauthorized,
    /// A head or a framing was refused, so that nobody knows where the next request begins (RFC 9112 §11.2).
    EndUnknown,
    /// The rest of a refused body is too long to be read.
    BodyNotRead,
    /// A client that waits for 100 may or may not send the body after another answer (RFC 9110 §10.1.1).
    BodyInDoubt,
    /// A client that asks for a tunnel may have begun to use it (RFC 9110 §9.3.6).
    TunnelInDoubt,
    /// The client ended its side.
    EndOfInput,
    /// A deadline passed.
    TimedOut,
}

impl CloseReason {
    /// Returns why the connection must close after this problem, if it must.
    pub(super) fn after(problem: &Problem) -> Option<Self> {
        match problem {
            Problem::Head(_) | Problem::Framing(_) => Some(Self::EndUnknown),
            Problem::TooLarge(_) => Some(Self::BodyNotRead),
            Problem::Timeout(_) => Some(Self::TimedOut),
            Problem::Unavailable(Unavailable::Disabled) => Some(Self::Disabled),
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
