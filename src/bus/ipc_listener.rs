//! The listening Unix sockets of `ipc://` endpoints.
//!
//! Before libzmq binds such an endpoint, it unlinks whatever is at the path: a file, or the socket of another process,
//! to which nobody can connect from then on. So the bus opens the socket itself, and libzmq takes it over
//! (`ZMQ_USE_FD`). Then libzmq unlinks nothing.

use std::io;
use std::path::Path;

use crate::sys::unix_listener::UnixListener;

/// Peers that the kernel connects before libzmq accepts them. libzmq uses the same number by default.
const BACKLOG: i32 = 100;

/// The last number that is tried in the name of a socket with any path.
const LAST_NUMBER: u32 = 100;

/// Listens at `name`: a path, an abstract name after an `@`, or `*` for any path. A socket at the path that nobody
/// listens on is replaced.
///
/// # Errors
/// Returns an error if somebody listens there, if there is a file that is not a socket, or if the system refuses. Then
/// whatever is at the path is as it was.
pub(super) fn open(name: &str) -> io::Result<UnixListener> {
    match name.strip_prefix('@') {
        Some("") => Err(io::Error::new(io::ErrorKind::InvalidInput, "an abstract name is not empty")),
        Some(name) => UnixListener::open_abstract(name.as_bytes(), BACKLOG),
        None if name == "*" => open_any(),
        None => UnixListener::open(Path::new(name), BACKLOG),
    }
}

/// libzmq would choose a name in the current directory, and leave the file behind.
fn open_any() -> io::Result<UnixListener> {
    let (directory, process) = (std::env::temp_dir(), std::process::id());
    let mut number = 0;
    loop {
        match UnixListener::open(&directory.join(format!("adapter-gateway-{process}-{number}")), BACKLOG) {
            Err(_) if number < LAST_NUMBER => number += 1,
            opened => return opened,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn any_path_is_free_and_in_the_temporary_directory() {
        let listeners = [(); 3].map(|()| open("*").unwrap());
        let paths = listeners.each_ref().map(|listener| listener.path().unwrap().to_owned());
        for path in &paths {
            assert_eq!(path.parent(), Some(&*std::env::temp_dir()));
            UnixStream::connect(path).unwrap();
        }
        drop(listeners);
        assert!(!paths.iter().any(|path| path.exists()));
    }

    #[test]
    fn an_abstract_name_is_taken_once_and_is_no_file() {
        let name = format!("@adapter-gateway-test-{}", std::process::id());
        let listener = open(&name).unwrap();
        assert_eq!(open(&name).map(drop).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert!(!Path::new(&name).exists());
        drop(listener);
        open(&name).unwrap();
        assert_eq!(open("@").map(drop).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
