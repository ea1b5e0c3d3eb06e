use super::*;
use crate::mark::must_hit;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener as StandardListener, UnixStream};
use std::thread;

fn temporary_path() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bus");
    (directory, path)
}

fn refusal(path: &Path) -> io::ErrorKind {
    let before = identity(path).unwrap();
    let refused = UnixListener::open(path, 10).map(drop).unwrap_err();
    assert_eq!(identity(path).unwrap(), before, "what was there stays");
    refused.kind()
}

#[test]
fn only_the_owner_can_connect_and_the_file_is_removed_at_the_end() {
    let (_directory, path) = temporary_path();
    let listener = UnixListener::open(&path, 10).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    UnixStream::connect(&path).unwrap();
    drop(listener);
    assert!(!path.exists());
}

#[test]
fn a_stale_socket_is_replaced() {
    let (_directory, path) = temporary_path();
    drop(StandardListener::bind(&path).unwrap());
    let _listener = UnixListener::open(&path, 10).unwrap();
    UnixStream::connect(&path).unwrap();
}

#[test]
fn what_is_in_use_or_no_socket_is_refused_and_stays() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("file"), "content").unwrap();
    std::fs::create_dir(at("directory")).unwrap();
    std::os::unix::fs::symlink("nowhere", at("link")).unwrap();
    for name in ["file", "directory", "link"] {
        assert_eq!(refusal(&at(name)), io::ErrorKind::AlreadyExists, "{name}");
    }
    assert_eq!(std::fs::read_to_string(at("file")).unwrap(), "content");
    let _listener = StandardListener::bind(at("listener")).unwrap();
    let _datagrams = UnixDatagram::bind(at("datagrams")).unwrap();
    for name in ["listener", "datagrams"] {
        assert_eq!(refusal(&at(name)), io::ErrorKind::AddrInUse, "{name}");
    }
}

#[test]
fn a_stale_socket_that_another_process_removes_is_gone() {
    let (_directory, path) = temporary_path();
    drop(StandardListener::bind(&path).unwrap());
    let address = SocketAddrUnix::new(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    must_hit("the process that had the socket has removed it meanwhile", || remove_stale(&path, &address).unwrap());
}

#[test]
fn a_listener_whose_backlog_is_full_is_in_use() {
    let (_directory, path) = temporary_path();
    let full = new_socket().unwrap();
    let address = SocketAddrUnix::new(&path).unwrap();
    bind(&full, &address).unwrap();
    listen(&full, 0).unwrap();
    let mut waiting = Vec::new();
    while connect(waiting.push_mut(new_socket().unwrap()), &address).is_ok() {}
    assert_eq!(refusal(&path), io::ErrorKind::AddrInUse);
}

#[test]
fn the_file_of_another_listener_is_not_removed() {
    let (_directory, path) = temporary_path();
    let listener = UnixListener::open(&path, 10).unwrap();
    std::fs::remove_file(&path).unwrap();
    let _other = StandardListener::bind(&path).unwrap();
    drop(listener);
    UnixStream::connect(&path).unwrap();
}

#[test]
fn of_gateways_that_start_together_one_listens() {
    let (_directory, path) = temporary_path();
    for _ in 0..50 {
        drop(StandardListener::bind(&path).unwrap());
        let open = || {
            thread::spawn({
                let path = path.clone();
                move || UnixListener::open(&path, 10)
            })
        };
        let opened: Vec<_> = [(); 4].map(|()| open()).into_iter().filter_map(|it| it.join().unwrap().ok()).collect();
        assert_eq!(opened.len(), 1);
        UnixStream::connect(&path).unwrap();
    }
}

#[test]
fn a_path_is_as_long_as_every_client_can_connect_to() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().as_os_str().len() + 1;
    let longest = directory.path().join("x".repeat(PATH_BYTES - base));
    let _listener = UnixListener::open(&longest, 10).unwrap();
    UnixStream::connect(&longest).unwrap();
    let refused = UnixListener::open(&directory.path().join("x".repeat(PATH_BYTES - base + 1)), 10);
    assert!(refused.map(drop).unwrap_err().to_string().contains("107 bytes"));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn who_has_connected_before_the_file_is_removed_is_accepted() {
    let (_directory, path) = temporary_path();
    let listener = UnixListener::open(&path, 10).unwrap();
    let socket = listener.as_fd().try_clone_to_owned().unwrap();
    let _early = UnixStream::connect(&path).unwrap();
    drop(listener);
    assert!(UnixStream::connect(&path).is_err());
    rustix::net::accept(&socket).unwrap();
}

#[test]
fn what_the_process_lacks_is_no_error_of_a_connection() {
    for error in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::STALE, Errno::IO, Errno::AGAIN] {
        assert!(!is_of_connection(error), "{error}");
    }
    for error in [Errno::CONNABORTED, Errno::INTR, Errno::PROTO, Errno::HOSTUNREACH, Errno::TIMEDOUT] {
        assert!(is_of_connection(error), "{error}");
    }
}
