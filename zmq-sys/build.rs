//! Compiles the bundled libzmq and links it.

use std::env;

/// What Linux has. libzmq's own build finds this out; the build of `zeromq-src` does not. Without these defines libzmq
/// accepts the settings of TCP keep-alive and does nothing with them, and its threads wake each other through socket
/// pairs instead of eventfds.
const LINUX: &[&str] = &[
    "-DZMQ_HAVE_SO_KEEPALIVE",
    "-DZMQ_HAVE_TCP_KEEPCNT",
    "-DZMQ_HAVE_TCP_KEEPIDLE",
    "-DZMQ_HAVE_TCP_KEEPINTVL",
    "-DZMQ_HAVE_EVENTFD",
    "-DZMQ_HAVE_EVENTFD_CLOEXEC",
    "-DZMQ_HAVE_SOCK_CLOEXEC",
    "-DHAVE_ACCEPT4",
    "-DZMQ_IOTHREAD_POLLER_USE_EPOLL_CLOEXEC",
];

/// These make libzmq call the functions of `src/hooks.rs`. They rename methods of libzmq's classes as well, in every
/// file alike, so that nothing else changes. The fortified headers of glibc would call libc in spite of them.
const HOOKS: &[&str] = &[
    "-U_FORTIFY_SOURCE",
    "-Drecv=zmq_sys_recv",
    "-Dsend=zmq_sys_send",
    "-Daccept4=zmq_sys_accept4",
    "-Dconnect=zmq_sys_connect",
    "-Dclose=zmq_sys_close",
    "-Depoll_ctl=zmq_sys_epoll_ctl",
    "-Dgetaddrinfo=zmq_sys_getaddrinfo",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The compiler gets the flags of all these variables. What comes last counts, so the defines are added to each
    // variable that is set, after what stands there.
    let target = env::var("TARGET").unwrap_or_default();
    let of_target = [target.replace('-', "_"), target].map(|target| format!("CXXFLAGS_{target}"));
    let others = ["TARGET_CXXFLAGS", "HOST_CXXFLAGS", "CXXFLAGS"].map(str::to_owned);
    for name in of_target.into_iter().chain(others) {
        println!("cargo:rerun-if-env-changed={name}");
        let flags = env::var(&name).unwrap_or_default();
        if flags.is_empty() && name != "CXXFLAGS" {
            continue;
        }
        let flags = format!("{flags} {} {}", LINUX.join(" "), HOOKS.join(" "));
        // SAFETY: this program has one thread.
        unsafe { env::set_var(name, flags.trim_start()) };
    }
    zeromq_src::Build::new().with_libsodium(None).build();
}
