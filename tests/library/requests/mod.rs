//! The core without I/O: the bytes of a connection go in; answers, published messages and the end come out.
//!
//! | file | the question it answers |
//! |---|---|
//! | `files` | does every connection of `tests/data` end as written beside it, however its bytes are split? |
//! | `limits` | do limits, long pipelines, large bodies and slow readers stay within their bounds, and is nothing lost? |
//! | `token` | is every right token accepted, and no other one? |
//! | `endings` | what happens in each state when the client leaves, a deadline passes, or the gateway stops? |
//! | `interim` | is 100 sent where the client waits with the body, and nowhere else? |
//! | `random` | does all of this hold for random requests? |

mod bytes;
mod endings;
mod files;
mod interim;
mod limits;
mod random;
mod token;
