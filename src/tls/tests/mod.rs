//! The parts together: certificates on a disk, and sessions with rustls' own client and with the clients people use.

mod certificates;
mod client;
mod programs;
mod self_signed;
mod sessions;
