//! The listening Unix sockets of `ipc://` endpoints.
//!
//! Before libzmq binds such an endpoint, it unlinks whatever is at the path: a file, or the socket of another process,
//! to which nobody can connect from then on. So the bus opens the socket itself, and libzmq takes it over
//! (`ZMQ_USE_FD`). Then libzmq unlinks nothing.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, fchmod, flock, lstat, open, unlink};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};

/// Peers that the kernel connects before libzmq accepts them. libzmq uses the same number by default.
const BACKLOG: i32 = 100;

/// The last number that is tried in the name of a socket with any path.
const LAST_NUMBER: u32 = 100;

/// How long to wait for a process that opens a socket in the same directory. That takes microseconds, but anybody who
/// may open the directory may hold its lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The pause between two attempts to lock the directory.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// A listening Unix socket. When it is dropped, its file is removed, unless another file has taken the place of that
/// file.
pub(super) struct IpcListener {
    /// It stays open until the file is removed. So as long as the file is there, another process that tries to connect
    /// sees that the endpoint is in use.
    socket: OwnedFd,
    /// `None` for an abstract name, which is no file.
    file: Option<SocketFile>,
}

struct SocketFile {
    path: PathBuf,
    identity: FileIdentity,
}

/// The numbers of a file's device and inode.
type FileIdentity = (u64, u64);

impl IpcListener {
    /// Listens at `name`: a path, an abstract name after an `@`, or `*` for any path. A socket at the path that nobody
    /// listens on is replaced.
    ///
    /// # Errors
    /// Returns an error if somebody listens there, if there is a file that is not a socket, or if the system refuses.
    /// Then whatever is at the path is as it was.
    pub(super) fn open(name: &str) -> io::Result<Self> {
        match name.strip_prefix('@') {
            Some("") => Err(io::Error::new(io::ErrorKind::InvalidInput, "an abstract name is not empty")),
            Some(name) => Self::open_abstract(name),
            None if name == "*" => Self::open_any(),
            None => Self::open_file(Path::new(name)),
        }
    }

    /// libzmq would choose a name in the current directory, and leave the file behind.
    fn open_any() -> io::Result<Self> {
        let (directory, process) = (std::env::temp_dir(), std::process::id());
        let mut number = 0;
        loop {
            match Self::open_file(&directory.join(format!("adapter-gateway-{process}-{number}"))) {
                Err(_) if number < LAST_NUMBER => number += 1,
                opened => return opened,
            }
        }
    }

    fn open_abstract(name: &str) -> io::Result<Self> {
        let socket = new_socket()?;
        match bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?) {
            Err(Errno::ADDRINUSE) => return Err(in_use()),
            bound => bound?,
        }
        listen(&socket, BACKLOG)?;
        Ok(Self { socket, file: None })
    }

    fn open_file(path: &Path) -> io::Result<Self> {
        // Without the lock, another process could take a socket that is bound and does not listen yet for a stale one.
        let _locked = lock_directory(path);
        let socket = new_socket()?;
        // The kernel gives the file the mode of the socket. So the file never has another mode.
        fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        let address = SocketAddrUnix::new(path)?;
        match bind(&socket, &address) {
            Err(Errno::ADDRINUSE) => {
                remove_stale(path, &address)?;
                bind(&socket, &address)?;
            }
            bound => bound?,
        }
        listen(&socket, BACKLOG)?;
        let identity = identity(path)?;
        Ok(Self { socket, file: Some(SocketFile { path: path.to_owned(), identity }) })
    }

    /// Returns a second descriptor of the socket.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        Ok(fcntl_dupfd_cloexec(&self.socket, 0)?)
    }
}

impl Drop for IpcListener {
    fn drop(&mut self) {
        let Some(SocketFile { path, identity: ours }) = &self.file else { return };
        if identity(path).is_ok_and(|found| found == *ours) {
            let _ = unlink(path);
        }
    }
}

/// Creates a socket that does not block: neither when a peer is gone before it is accepted, nor when the backlog of a
/// listener is full.
fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Locks the directory of `path` against other gateways until the descriptor is closed. Returns `None` if that is not
/// possible: a gateway that starts is worth more than the protection of two gateways that start in the same moment.
fn lock_directory(path: &Path) -> Option<OwnedFd> {
    let directory = match path.parent()? {
        parent if parent.as_os_str().is_empty() => Path::new("."),
        parent => parent,
    };
    let directory = open(directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(directory),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => thread::sleep(LOCK_PAUSE),
            Err(_) => return None,
        }
    }
}

/// Removes the socket at `path` if nobody listens on it.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> io::Result<()> {
    if FileType::from_raw_mode(lstat(path)?.st_mode) != FileType::Socket {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is not a socket"));
    }
    match connect(&new_socket()?, address) {
        Err(Errno::CONNREFUSED) => Ok(unlink(path)?),
        // The backlog of the listener is full, or the socket is of another type.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Err(in_use()),
        Err(error) => Err(error.into()),
    }
}

fn in_use() -> io::Error {
    io::Error::new(io::ErrorKind::AddrInUse, "Address already in use: another process listens there")
}

fn identity(path: &Path) -> io::Result<FileIdentity> {
    let file = lstat(path)?;
    Ok((file.st_dev, file.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    fn refusal(path: &Path) -> io::ErrorKind {
        let before = identity(path).unwrap();
        let refused = IpcListener::open(path.to_str().unwrap()).map(drop).unwrap_err();
        assert_eq!(identity(path).unwrap(), before, "what was there stays");
        refused.kind()
    }

    #[test]
    fn only_the_owner_can_connect_and_the_file_is_removed_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bus");
        let listener = IpcListener::open(path.to_str().unwrap()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        UnixStream::connect(&path).unwrap();
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_stale_socket_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bus");
        drop(UnixListener::bind(&path).unwrap());
        let _listener = IpcListener::open(path.to_str().unwrap()).unwrap();
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
        let _listener = UnixListener::bind(at("listener")).unwrap();
        let _datagrams = UnixDatagram::bind(at("datagrams")).unwrap();
        for name in ["listener", "datagrams"] {
            assert_eq!(refusal(&at(name)), io::ErrorKind::AddrInUse, "{name}");
        }
    }

    #[test]
    fn a_listener_whose_backlog_is_full_is_in_use() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bus");
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
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bus");
        let listener = IpcListener::open(path.to_str().unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop(listener);
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn of_gateways_that_start_together_one_listens() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bus");
        let name = path.to_str().unwrap();
        for _ in 0..50 {
            drop(UnixListener::bind(&path).unwrap());
            let open = || {
                thread::spawn({
                    let name = name.to_owned();
                    move || IpcListener::open(&name)
                })
            };
            let opened: Vec<_> =
                [(); 4].map(|()| open()).into_iter().filter_map(|it| it.join().unwrap().ok()).collect();
            assert_eq!(opened.len(), 1);
            UnixStream::connect(&path).unwrap();
        }
    }

    #[test]
    fn any_path_is_free_and_in_the_temporary_directory() {
        let listeners = [(); 3].map(|()| IpcListener::open("*").unwrap());
        let paths = listeners.each_ref().map(|listener| listener.file.as_ref().unwrap().path.clone());
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
        let listener = IpcListener::open(&name).unwrap();
        assert_eq!(IpcListener::open(&name).map(drop).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert!(!Path::new(&name).exists());
        drop(listener);
        IpcListener::open(&name).unwrap();
        assert_eq!(IpcListener::open("@").map(drop).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
