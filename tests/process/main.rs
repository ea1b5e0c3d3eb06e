//! The gateway as its users meet it: the real binary as a child process, real TCP sockets, the real libzmq on the other
//! side. Every test that starts the gateway is in this program, so that cargo links one program and all of its threads
//! have work until the end.
//!
//! | file | the question it answers |
//! |---|---|
//! | `topics` | Is every message of the specification's table published byte for byte, and one with a fault refused? |
//! | `statuses` | Does every row of the contract's status table hold, in the order of the table? |
//! | `subscriptions` | Does the gateway tell which messages nobody has subscribed to? |
//! | `bus` | Does `--encoding` publish what it promises, and is the reason told why a hub is not connected? |
//! | `unix_sockets` | Is everything as by TCP? |
//! | `inherited_sockets` | Do others feel nothing of a gateway on their socket, and of one that replaces it? |
//! | `host_names` | Is every endpoint served while a name server does not answer? |
//! | `files` | Is every switch-off seen, and nothing held up, whatever file systems, mounts and locks do? |
//! | `settings` | Does the gateway follow `user_settings.py` while it runs? |
//! | `confined` | Does the gateway serve, and follow its files, in a container, without io_uring and without watches? |
//! | `enable` | Do `enable` and `disable` say what was asked for, and change nothing else? |
//! | `advice` | Does a person learn what to do where the system refuses something? |
//! | `descriptors` | Is none left open, and is a start without enough of them or of threads refused with a sentence? |
//! | `endurance` | Is every client served, and memory bounded, while other clients misbehave? |
//! | `lifecycle` | Can a parent start, watch and stop the gateway without the loss of a message? |
//! | `adapter_states` | Does HTTP alone cause each transition of the specification's section 3, in each vocabulary? |
//! | `listen`, `demo` | Can a person use what these commands print? |
//! | `send` | Does every line arrive once and in order, or does a person learn which did not? |
//! | `https` | Is https served as clients use it, and are certificates made, renewed and replaced? |
//! | `delivery` | Does each message that was answered with 200 arrive, whatever happens to hubs, network and gateway? |
//! | `guard` | Does a stranger at a port of the bus harm or delay nobody, whatever it sends? |
//! | `docs` | Do the documents, the help, the man page and the completions agree with the program? |
//! | `epoll` | Does what touches the transport hold with epoll too? |
//! | `harness` | Does the strict client notice what it must notice? |
//!
//! The gateways wait for sockets with io_uring. `GATEWAY_IO=epoll cargo test --test process` runs all tests with epoll;
//! `epoll` names those for which it may make a difference, and runs these.
//!
//! Every wait is bounded by [`support::PATIENCE`]. That something does *not* happen is shown by a marker that follows
//! on the same ordered path, and never by a pause.

// Clippy applies `clippy.toml` to what is compiled for tests alone.
#![cfg(test)]

mod adapter_states;
mod advice;
mod bus;
mod confined;
mod delivery;
mod demo;
mod descriptors;
mod docs;
mod enable;
mod endurance;
mod epoll;
mod files;
mod guard;
mod harness;
mod host_names;
mod https;
mod inherited_sockets;
mod lifecycle;
mod listen;
mod send;
mod settings;
mod statuses;
mod subscriptions;
#[allow(dead_code, reason = "shared with other tests, each of which uses a part of it")]
#[path = "../support/mod.rs"]
mod support;
mod topics;
mod unix_sockets;
