//! The link to one endpoint: whether it counts as connected, why it is not, and the names of its hosts.
//!
//! | file | what it holds |
//! |---|---|
//! | `monitor` | the events of libzmq about the connections of a socket |
//! | `peer_state` | whether a hub counts as connected |
//! | `connection_watch` | when a lost connection is reported, and what of it |
//! | `watched_connection` | the connection and the watch of it, for the sockets of an endpoint |
//! | `probe` | why an endpoint is not connected |
//! | `names` | the addresses of host names, looked up outside of libzmq's thread |

pub(in crate::bus) mod connection_watch;
pub(in crate::bus) mod monitor;
pub(in crate::bus) mod names;
pub(in crate::bus) mod peer_state;
pub(in crate::bus) mod probe;
pub(in crate::bus) mod watched_connection;
