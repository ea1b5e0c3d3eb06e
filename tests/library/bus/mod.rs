//! The bus with real sockets, where the tests of the program cannot see what happens. Every wait is bounded.
//!
//! | file | the question that it answers |
//! |---|---|
//! | `delivery` | Do hubs and subscribers get each message once and in order, though they are slow or late? |
//! | `threads` | Does a stop hand over what was accepted, and do the threads sleep while there is nothing to do? |

mod delivery;
mod rig;
mod threads;
