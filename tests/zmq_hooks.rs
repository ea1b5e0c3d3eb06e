//! libzmq calls the hooks of the folder `zmq-sys`, and not libc. A compiler flag that undoes this would take the checks
//! of the bus away without a sign. The hooks belong to the whole process, so this test has a process of its own.
#![allow(unsafe_code, clippy::unwrap_used, reason = "a test that fails, and hooks that call libc")]

use std::collections::HashSet;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};

use libc::{addrinfo, sockaddr, socklen_t, ssize_t};
use zmq_sys::{Hooks, READ_BYTES};

/// How often each hook was called, in the order of the fields of [`Hooks`].
static CALLS: [AtomicUsize; 7] = [const { AtomicUsize::new(0) }; 7];

/// The threads that called a hook for a connection.
static THREADS: Mutex<Option<HashSet<ThreadId>>> = Mutex::new(None);

/// The least room of a read after the greeting, which libzmq reads in parts of exact lengths.
static LEAST_ROOM: AtomicUsize = AtomicUsize::new(usize::MAX);
const GREETING_BYTES: usize = 64;

fn count(hook: usize) {
    CALLS.get(hook).unwrap().fetch_add(1, Ordering::Relaxed);
}

fn count_for_connection(hook: usize) {
    count(hook);
    THREADS.lock().unwrap().get_or_insert_default().insert(thread::current().id());
}

unsafe extern "C" fn recv(fd: c_int, data: *mut c_void, size: usize, flags: c_int) -> ssize_t {
    count_for_connection(0);
    if size > GREETING_BYTES {
        LEAST_ROOM.fetch_min(size, Ordering::Relaxed);
    }
    // SAFETY: the arguments are those of libzmq.
    unsafe { libc::recv(fd, data, size, flags) }
}

unsafe extern "C" fn send(fd: c_int, data: *const c_void, size: usize, flags: c_int) -> ssize_t {
    count_for_connection(1);
    // SAFETY: the arguments are those of libzmq.
    unsafe { libc::send(fd, data, size, flags) }
}

unsafe extern "C" fn accept4(fd: c_int, address: *mut sockaddr, size: *mut socklen_t, flags: c_int) -> c_int {
    count_for_connection(2);
    // SAFETY: the arguments are those of libzmq.
    unsafe { libc::accept4(fd, address, size, flags) }
}

unsafe extern "C" fn connect(fd: c_int, address: *const sockaddr, size: socklen_t) -> c_int {
    count_for_connection(3);
    // SAFETY: the arguments are those of libzmq.
    unsafe { libc::connect(fd, address, size) }
}

unsafe extern "C" fn close(fd: c_int) -> c_int {
    count(4);
    // SAFETY: the argument is that of libzmq.
    unsafe { libc::close(fd) }
}

unsafe extern "C" fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut libc::epoll_event) -> c_int {
    count(5);
    // SAFETY: the arguments are those of libzmq.
    unsafe { libc::epoll_ctl(epoll, operation, fd, event) }
}

unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const addrinfo,
    found: *mut *mut addrinfo,
) -> c_int {
    count(6);
    // SAFETY: the arguments are those of libzmq.
    unsafe { libc::getaddrinfo(node, service, hints, found) }
}

#[test]
fn libzmq_calls_each_hook_and_those_of_a_connection_from_one_thread() {
    zmq_sys::set_hooks(&Hooks { recv, send, accept4, connect, close, epoll_ctl, getaddrinfo });
    let directory = tempfile::tempdir().unwrap();
    let calls = || CALLS.each_ref().map(|calls| calls.load(Ordering::Relaxed));
    for (address, looks_up) in
        [("tcp://127.0.0.1:*".into(), true), (format!("ipc://{}/bus", directory.path().display()), false)]
    {
        let before = calls();
        {
            let context = zmq::Context::new();
            let (sender, receiver) = (context.socket(zmq::PUSH).unwrap(), context.socket(zmq::PULL).unwrap());
            receiver.bind(&address).unwrap();
            sender.connect(&receiver.get_last_endpoint().unwrap().unwrap()).unwrap();
            for bytes in (0..3 * READ_BYTES).step_by(7) {
                sender.send(vec![b'm'; bytes], 0).unwrap();
                assert_eq!(receiver.recv_bytes(0).unwrap().len(), bytes);
            }
        }
        assert_eq!(LEAST_ROOM.load(Ordering::Relaxed), READ_BYTES, "{address}");
        // The table of connections is local to that thread.
        assert_eq!(THREADS.lock().unwrap().take().unwrap().len(), 1);
        let called: Vec<_> = calls().iter().zip(before).map(|(after, before)| *after > before).collect();
        let expected = [true, true, true, true, true, true, looks_up];
        assert_eq!(called, expected, "recv, send, accept4, connect, close, epoll_ctl, getaddrinfo: {address}");
    }
}
