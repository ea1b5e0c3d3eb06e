//! Listening sockets that take nothing away from anybody, and leave nothing behind.
//!
//! `bind(2)` fails at a path where a file is, also where a killed process has left its socket. To unlink whatever is
//! there would take the path from a process that listens on it. So a [`UnixListener`] finds out first what is there.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::fs::{FileType, Mode, OFlags, chmod, fchmod, fstat, lstat, open, unlink};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};
use socket2::{Domain, Protocol, Socket, Type};

use super::advice::{Refused, advised};
use super::lock;
use super::retry::lock_directory;
use crate::mark::mark;

/// The longest path that every program can connect to: `sun_path` of unix(7) without the zero byte at its end.
const PATH_BYTES: usize = 107;

/// Only the owner can connect.
const OWNER: Mode = Mode::RUSR.union(Mode::WUSR);

/// Returns whether accept(2) fails with this error of a connection alone, so that the next one may be accepted at once.
/// With any other error the same connection may fail again and again.
pub(crate) fn is_of_connection(error: Errno) -> bool {
    matches!(
        error,
        Errno::CONNABORTED
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::INTR
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::NONET
            | Errno::NOPROTOOPT
            | Errno::OPNOTSUPP
            | Errno::PROTO
            | Errno::TIMEDOUT
    )
}

/// Listens at an address, non-blocking; with `takes_ipv4`, one that means every address of IPv6 means every one of IPv4
/// too. Accepted sockets inherit the options, and those that `set` sets. It binds without `SO_REUSEPORT`, with which a
/// second process could take half of the connections unnoticed.
pub(crate) fn listen_at(
    address: SocketAddr,
    takes_ipv4: bool,
    backlog: i32,
    set: impl FnOnce(&Socket) -> io::Result<()>,
) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    // Connections of a former process that linger in TIME_WAIT must not keep a new one from its port.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(!takes_ipv4)?;
    }
    // Answers are written whole, and messages together where there are several: to wait for more would only delay them.
    socket.set_tcp_nodelay(true)?;
    set(&socket)?;
    socket.bind(&address.into()).map_err(|error| advised(error, Refused::Port(address.port())))?;
    socket.listen(backlog)?;
    Ok(socket)
}

/// A listening, non-blocking Unix socket. On drop its file is removed, unless another file has taken the place of it.
/// Who has connected before is still accepted by a second descriptor of the socket.
pub(crate) struct UnixListener {
    /// It stays open until the file is removed: another process that tries to connect sees that the path is in use, and
    /// no other file gets its inode number.
    socket: OwnedFd,
    /// `None` for an abstract name, which is no file.
    file: Option<SocketFile>,
}

/// The path of a socket, and the device and inode of its file.
type SocketFile = (PathBuf, (u64, u64));

/// The files of all sockets of this process; `None` once it ends, when it makes no more.
static FILES: Mutex<Option<Vec<SocketFile>>> = Mutex::new(Some(Vec::new()));

/// Removes the files of all sockets, whichever threads have made them or make some: the process ends.
pub(crate) fn remove_files() {
    // Who closes a socket waits meanwhile: no file of another process gets its inode number before the look at it.
    lock(&FILES).take().iter().flatten().for_each(remove);
}

/// Removes the file of a socket, unless another file has taken the place of it.
fn remove((path, ours): &SocketFile) {
    if identity(path).is_ok_and(|found| found == *ours) {
        let _ = unlink(path);
    }
}

impl UnixListener {
    /// Listens at this path, where only this user and root can connect. Replaces a socket that nobody listens on. If
    /// this fails, whatever is at the path is as it was.
    pub(crate) fn open(path: &Path, backlog: i32) -> io::Result<Self> {
        if path.as_os_str().len() > PATH_BYTES {
            let reason = format!("the path of a socket has at most {PATH_BYTES} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidFilename, reason));
        }
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Without the lock, two processes could both remove a stale socket, the later one that of the other. Where the
        // lock cannot be had, the socket is opened without it.
        let _locked = lock_directory(directory);
        if lock(&FILES).is_none() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let socket = new_socket()?;
        // The file gets the mode of the socket, less what the umask takes. So it is never open to others.
        fchmod(&socket, OWNER)?;
        let address = SocketAddrUnix::new(path)?;
        match bind(&socket, &address) {
            Err(Errno::ADDRINUSE) => {
                remove_stale(path, &address)?;
                bind(&socket, &address)?;
            }
            bound => bound.map_err(|error| advised(error.into(), Refused::Path(path)))?,
        }
        // From here on, a failure removes the file.
        let file = (path.to_owned(), identity(path)?);
        let listener = Self { socket, file: Some(file.clone()) };
        lock(&FILES).as_mut().ok_or(io::ErrorKind::Interrupted)?.push(file);
        give_to_owner(path)?;
        listen(&listener.socket, backlog)?;
        Ok(listener)
    }

    /// Listens at an abstract name (unix(7)), to which every process of the network namespace can connect.
    pub(crate) fn open_abstract(name: &[u8], backlog: i32) -> io::Result<Self> {
        let socket = new_socket()?;
        match bind(&socket, &SocketAddrUnix::new_abstract_name(name)?) {
            Err(Errno::ADDRINUSE) => return Err(in_use()),
            bound => bound?,
        }
        listen(&socket, backlog)?;
        Ok(Self { socket, file: None })
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|(path, _)| path.as_path())
    }
}

impl AsFd for UnixListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for UnixListener {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            remove(file);
            lock(&FILES).iter_mut().for_each(|files| files.retain(|other| other != file));
        }
    }
}

/// It blocks neither when a peer is gone before it is accepted, nor when the backlog of a listener is full.
fn new_socket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// Restores the permissions that the umask took.
fn give_to_owner(path: &Path) -> io::Result<()> {
    // The descriptor stands for this one file, and for no file that a link leads to.
    let file = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let mode = fstat(&file)?.st_mode;
    if FileType::from_raw_mode(mode) == FileType::Socket && Mode::from_raw_mode(mode) != OWNER {
        chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), OWNER)?;
    }
    Ok(())
}

/// Removes the socket at `path` if nobody listens on it, unless its process has removed it meanwhile. Fails with why it
/// must stay.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> io::Result<()> {
    match lstat(path).map(|found| FileType::from_raw_mode(found.st_mode)) {
        Ok(FileType::Socket) => {}
        Ok(_) => return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is not a socket")),
        Err(Errno::NOENT) => {
            mark!("the process that had the socket has removed it meanwhile");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    }
    match connect(&new_socket()?, address) {
        Err(Errno::CONNREFUSED) => Ok(unlink(path)?),
        Err(Errno::NOENT) => Ok(()),
        // The backlog of the listener is full, or the socket is of another type.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Err(in_use()),
        Err(error) => Err(error.into()),
    }
}

fn in_use() -> io::Error {
    io::Error::new(io::ErrorKind::AddrInUse, "Address already in use: another process listens there")
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let file = lstat(path)?;
    Ok((file.st_dev, file.st_ino))
}

#[cfg(test)]
mod tests;
