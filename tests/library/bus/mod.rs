//! The bus with real sockets, where the tests of the program cannot see what happens. Every wait is bounded.
//!
//! | file | the question that it answers |
//! |---|---|
//! | `dialled` | Do hubs get each message once and in order, though they are slow or late? |
//! | `matching` | Does a subscription that has arrived count before what is posted after it? |
//! | `subscribing` | Does a subscriber of `listen` get what it should, and hear of what is wrong? |
//! | `stopping` | Does a stop hand over what was accepted, and keep its deadline? |
//! | `waking` | Do the threads sleep while there is nothing to do, and only then? |

mod dialled;
mod matching;
mod rig;
mod stopping;
mod subscribing;
mod waking;
