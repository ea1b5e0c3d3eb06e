//! https as clients use it: the binary itself, clients of rustls over sockets, and a subscriber of libzmq.
//!
//! | file | the question it answers |
//! |---|---|
//! | `self_signed` | is the gateway's own certificate made with an event, kept and replaced, and its key closed? |
//! | `kept_pair` | is a pair that cannot be renewed still served, and can a foreign lock hold it up? |
//! | `given_files` | do `--tls-cert` and `--tls-key` work for the keys that people have, and is each fault named? |
//! | `requests` | does a request mean the same at every split into records, and are sessions resumed? |
//! | `closing` | does each side learn that nothing was cut off, and what happens where something was? |
//! | `hostile_clients` | what happens to plain http, garbage, stalled handshakes and clients that disconnect? |
//! | `failed_handshakes` | is each reason why a handshake failed counted? |
//! | `timeouts` | are missed deadlines answered in HTTP? |
//! | `reload` | do new connections get a new certificate, and do the others stay? |
//! | `renewal` | is the gateway's own certificate renewed in time, while it serves? |
//! | `drain` | is what was answered with 200 on the bus after a stop under load, and nothing else waited for? |

pub(crate) mod client;
mod closing;
mod drain;
mod failed_handshakes;
mod given_files;
mod hostile_clients;
mod kept_pair;
mod reload;
mod renewal;
mod requests;
pub(crate) mod rig;
mod self_signed;
mod timeouts;
