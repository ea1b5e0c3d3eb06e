//! The guard of the ports of the bus: whoever can connect to a port of the bus can send any bytes. The real binary as a
//! child process, raw sockets, and the real libzmq on the other side.
//!
//! | file | the question it answers |
//! |---|---|
//! | `strangers` | Does anything but ZMTP 3 become a message or a subscription? |
//! | `subscriptions` | Do subscriptions of any number and length cost the gateway, its other subscribers or its hub anything? |
//! | `publishers` | Does the embedded hub pass on anything but messages of two frames within the bounds? |
//! | `storm` | Does the gateway stand thousands of random connections? `GUARD_CONNECTIONS` sets how many at each port |
//! | `siege` | Do peers that leave, are silent or are too many hold others up? |
//! | `turnover` | Do many peers that come and go, or change their mind, hold others up? |
//! | `stalled` | What do publishers cost while nobody takes their messages? |
//! | `protocol` | Are heartbeats and both forms of subscriptions read as ZMTP 3 has them? |
//! | `counts` | Do the events tell where the ports are, who is late, and what became of each message? |
//! | `order` | Do all subscribers receive one order? |
//! | `long_messages` | Who waits for long messages of publishers, and who goes? |
//! | `pressure` | Do publishers and posts hold each other up while a subscriber does not read? |
//! | `idle` | Does the gateway take processor time while nothing happens? |
//! | `slow` | Who is disconnected because it is slow, and who stays? |
//! | `rig` | gateways with a port of each kind |
//! | `traffic` | what the tests post and read |

mod counts;
mod idle;
mod long_messages;
mod order;
mod pressure;
mod protocol;
mod publishers;
pub(crate) mod rig;
mod siege;
mod slow;
mod stalled;
mod storm;
mod strangers;
mod subscriptions;
pub(crate) mod traffic;
mod turnover;
