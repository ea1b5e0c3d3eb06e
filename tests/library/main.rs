//! The library without the program: no test of this program starts a gateway.
//!
//! | file | the question it answers |
//! |---|---|
//! | `architecture` | Do the layers import each other in one direction only, and does the core name no socket, thread or clock? |
//! | `requests` | Does the core answer each connection as it must, at every split, and hold its limits, also where it ends early? |
//! | `bus` | Does the bus keep the order, wait for slow subscribers, sleep and stop, with real sockets? |
//! | `reservations` | Who is read, who waits and who goes among publishers of long messages? |
//! | `watch` | Is a change of a watched file noticed, in whatever way the file was changed? |
//! | `fuzz_seeds` | Do the properties of the fuzz targets hold for all of their stored inputs, and for random changes of them? |
//! | `properties` | what must hold of the core for every input, for the fuzz targets and for these tests |

// Clippy applies `clippy.toml` to what is compiled for tests alone.
#![cfg(test)]

mod architecture;
mod bus;
mod fuzz_seeds;
mod properties;
mod requests;
mod reservations;
#[allow(dead_code, unused_imports, reason = "shared with other tests, each of which uses a part of it")]
#[path = "../support/mod.rs"]
mod support;
mod watch;
