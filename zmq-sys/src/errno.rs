//! The errors that libzmq's functions set as `errno`. The `zmq` crate panics on any other.

use std::ffi::c_int;

pub use libc::{
    EACCES, EADDRINUSE, EADDRNOTAVAIL, EAGAIN, EBUSY, ECONNREFUSED, EFAULT, EHOSTUNREACH, EINPROGRESS, EINTR, EINVAL,
    EMFILE, EMSGSIZE, ENAMETOOLONG, ENETDOWN, ENOBUFS, ENODEV, ENOENT, ENOMEM, ENOTCONN, ENOTSOCK, ENOTSUP, EPROTO,
    EPROTONOSUPPORT,
};

/// The first of libzmq's own errors. Those of systems are smaller.
const ZMQ_HAUSNUMERO: c_int = 156384712;

// What libzmq alone has.
pub const EFSM: c_int = ZMQ_HAUSNUMERO + 51;
pub const ENOCOMPATPROTO: c_int = ZMQ_HAUSNUMERO + 52;
pub const ETERM: c_int = ZMQ_HAUSNUMERO + 53;
pub const EMTHREAD: c_int = ZMQ_HAUSNUMERO + 54;

// What libzmq defines where a system has no such error. Linux has them all, and the `zmq` crate names them.
pub const ENOTSUP_ALT: c_int = ZMQ_HAUSNUMERO + 1;
pub const EPROTONOSUPPORT_ALT: c_int = ZMQ_HAUSNUMERO + 2;
pub const ENOBUFS_ALT: c_int = ZMQ_HAUSNUMERO + 3;
pub const ENETDOWN_ALT: c_int = ZMQ_HAUSNUMERO + 4;
pub const EADDRINUSE_ALT: c_int = ZMQ_HAUSNUMERO + 5;
pub const EADDRNOTAVAIL_ALT: c_int = ZMQ_HAUSNUMERO + 6;
pub const ECONNREFUSED_ALT: c_int = ZMQ_HAUSNUMERO + 7;
pub const EINPROGRESS_ALT: c_int = ZMQ_HAUSNUMERO + 8;
pub const ENOTSOCK_ALT: c_int = ZMQ_HAUSNUMERO + 9;
pub const EMSGSIZE_ALT: c_int = ZMQ_HAUSNUMERO + 10;
