//! Whether an endpoint counts as connected, and why it does not, in words for people.

use std::fmt;

/// Whether an endpoint counts as connected, and why it does not.
pub type LinkStatus = Result<(), NotConnected>;

/// Why an endpoint does not count as connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotConnected {
    /// The name has no address, with the reason of the system.
    Unresolved(String),
    /// Nothing listens there.
    Refused,
    /// The system cannot connect, with its reason.
    Unreachable(String),
    /// There is no answer.
    Silent,
    /// The connection was closed.
    Closed,
    /// What listens there does not speak ZMTP 3 with the mechanism NULL.
    NotZmtp,
    /// A ZeroMQ socket of this type listens there, which does not fit the own one.
    WrongSide(String),
}

/// What the peers do that the own socket can connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bus) enum PeerRole {
    /// They subscribe, and count as connected with their first subscription.
    Subscribe,
    /// They publish, and count as connected with their handshake.
    Publish,
}

impl PeerRole {
    /// Returns whether ZeroMQ sockets of this type do this.
    pub(in crate::bus) fn has_type(self, socket_type: &str) -> bool {
        match self {
            Self::Subscribe => ["SUB", "XSUB"],
            Self::Publish => ["PUB", "XPUB"],
        }
        .contains(&socket_type)
    }
}

impl fmt::Display for NotConnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unresolved(reason) => write!(f, "the name cannot be resolved: {reason}"),
            Self::Refused => f.write_str("connection refused, nothing listens there"),
            Self::Unreachable(reason) => f.write_str(reason),
            Self::Silent => f.write_str("no answer"),
            Self::Closed => f.write_str("the connection was closed"),
            Self::NotZmtp => f.write_str("what listens there does not speak ZMTP 3, the protocol of ZeroMQ"),
            Self::WrongSide(kind) if PeerRole::Subscribe.has_type(kind) => {
                write!(f, "the publishers' side of a hub listens there (a socket of type {kind})")
            }
            Self::WrongSide(kind) if PeerRole::Publish.has_type(kind) => {
                write!(f, "the subscribers' side of a hub listens there (a socket of type {kind})")
            }
            Self::WrongSide(kind) => write!(f, "a ZeroMQ socket of type {kind} listens there"),
        }
    }
}
