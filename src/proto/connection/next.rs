//! What a connection is told to do.

/// What a connection must do next, after it wrote the answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Read more.
    Read(Waiting),
    /// Call [`Connection::receive`](super::Connection::receive) again with nothing: there is more to answer.
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
    /// The rest of a body, to be used or dropped.
    Body,
}

/// Why a connection closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client or its version of HTTP asked for it, or the gateway stops.
    Asked,
    /// After a refusal there is no telling, or no use in finding out, where the next request begins.
    Refused,
    /// The client ended the connection.
    EndOfInput,
    /// A deadline passed.
    TimedOut,
}
