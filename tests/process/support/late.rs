//! Clients that take too long for a timeout of one second, the shortest there is.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use super::http::Client;

/// The patience asked of the gateway, less a little for clocks that round.
pub(crate) const AT_LEAST: Duration = Duration::from_millis(900);

/// Reads a 408 and the close, and not before the timeout.
pub(crate) fn expect_408<S: Read + Write>(mut client: Client<S>, since: Instant) {
    let response = client.response();
    assert_eq!((response.status, response.closes()), (408, true));
    response.problem();
    client.expect_close();
    assert!(since.elapsed() >= AT_LEAST, "after {:?} already", since.elapsed());
}
