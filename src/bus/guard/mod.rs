//! Who may speak to our ports, and how much.
//!
//! | file | what it holds |
//! |---|---|
//! | `door` | the places at bound endpoints, and a [`crate::zmtp::InboundGuard`] for each connection |
//! | `back_pressure` | which publishers wait because the hub holds too much, and which subscribers stall |

pub(in crate::bus) mod back_pressure;
pub(in crate::bus) mod door;
