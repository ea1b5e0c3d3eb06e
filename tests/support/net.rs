//! Addresses on the loopback interface that no other test and no other program uses, and sockets there.

use std::sync::atomic::AtomicU32;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;

/// Returns an address that stays free, unlike a port of 127.0.0.1, which the kernel may give to the next test: each
/// call takes another host of 127.0.0.0/8, from the id of this process and a counter.
pub(crate) fn free_address() -> SocketAddr {
    free_listener().local_addr().unwrap()
}

/// Listens at such an address. Between two binds, a listener at every address could get the port.
pub(crate) fn free_listener() -> TcpListener {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let host = (std::process::id() << 8) + NEXT.fetch_add(1, Ordering::Relaxed);
    let [_, b, c, d] = host.to_be_bytes();
    let host = Ipv4Addr::new(127, b.max(1), c, d.clamp(1, 254));
    TcpListener::bind((host, 0)).unwrap()
}

/// Connects to an address of any family. Each write is a segment, and no call waits longer than [`PATIENCE`].
pub(crate) fn connect(address: &SockAddr) -> io::Result<Socket> {
    connect_after(address, |_| Ok(()))
}

/// As [`connect`], where something has to be set before.
pub(crate) fn connect_after(address: &SockAddr, set: impl FnOnce(&Socket) -> io::Result<()>) -> io::Result<Socket> {
    let socket = Socket::new(address.domain(), Type::STREAM, None)?;
    set(&socket)?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    // A Unix socket has no segments, and no such option.
    let _ = socket.set_tcp_nodelay(true);
    Ok(socket)
}

pub(crate) fn dead_endpoint() -> String {
    format!("tcp://{}", free_address())
}

/// Returns whether a connection to this address is refused, because nothing listens there.
pub(crate) fn refuses(address: SocketAddr) -> bool {
    match TcpStream::connect(address) {
        Ok(_open) => false,
        Err(error) => error.kind() == io::ErrorKind::ConnectionRefused,
    }
}

/// An IPv4 socket as the kernel's table has it (proc_net_tcp(5)).
pub(crate) struct TcpSocket {
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    pub(crate) listens: bool,
    /// The bytes in the buffers of a connection, in both directions.
    pub(crate) buffered_bytes: usize,
    pub(crate) has_keep_alive_timer: bool,
}

pub(crate) fn tcp_sockets() -> Vec<TcpSocket> {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let number = |hex: &str| u32::from_str_radix(hex, 16).unwrap();
    let pair = |field: &str| field.split_once(':').map(|(one, other)| (number(one), number(other))).unwrap();
    let address = |field: &str| {
        let (host, port) = pair(field);
        SocketAddr::from((host.to_ne_bytes(), port as u16))
    };
    let socket = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (unsent, unread) = pair(fields[4]);
        let (local, peer, buffered_bytes) = (address(fields[1]), address(fields[2]), (unsent + unread) as usize);
        let (listens, has_keep_alive_timer) = (fields[3] == "0A", fields[5].starts_with("02:"));
        TcpSocket { local, peer, listens, buffered_bytes, has_keep_alive_timer }
    };
    table.lines().skip(1).map(socket).collect()
}

/// Returns whether something can be read from this file, or nothing more will come, within this time.
pub(crate) fn is_readable_within(file: impl AsFd, time: Duration) -> bool {
    let time = Timespec::try_from(time).unwrap();
    poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&time)).unwrap() > 0
}

pub(crate) fn accept_connection(listener: &TcpListener) -> TcpStream {
    assert!(is_readable_within(listener, PATIENCE), "nobody connected in time");
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A drain time that no test reaches. A tenth of it is the longest pause of a client between two requests.
pub(crate) const LONG_DRAIN: [&str; 2] = ["--drain-timeout", "60"];

/// A listening socket that the test shares with gateways, which inherit it.
pub(crate) struct Shared {
    pub(crate) listener: Socket,
    _directory: TempDir,
}

impl Shared {
    pub(crate) fn tcp() -> Self {
        Self::bound(&ANY_PORT.into(), tempfile::tempdir().unwrap())
    }

    pub(crate) fn unix() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::bound(&SockAddr::unix(directory.path().join("shared")).unwrap(), directory)
    }

    fn bound(address: &SockAddr, directory: TempDir) -> Self {
        let listener = Socket::new(address.domain(), Type::STREAM, None).unwrap();
        listener.bind(address).unwrap();
        listener.listen(128).unwrap();
        Self { listener, _directory: directory }
    }

    pub(crate) fn both() -> [Self; 2] {
        [Self::tcp(), Self::unix()]
    }

    pub(crate) fn address(&self) -> SockAddr {
        self.listener.local_addr().unwrap()
    }

    pub(crate) fn connect(&self) -> Client<Socket> {
        Client::over(connect(&self.address()).unwrap())
    }

    pub(crate) fn flags(&self) -> OFlags {
        fcntl_getfl(&self.listener).unwrap()
    }
}
