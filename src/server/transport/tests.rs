//! What both transports promise.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::timeout;

use super::epoll::Epoll;
use super::uring::Uring;
use super::*;

/// How long an event may take that must come.
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns an event loop on a ring with few entries. Where the kernel refuses rings, it returns `None` and says so past
/// the output capture of the test harness; with `REQUIRE_URING` in the environment it fails.
fn uring() -> Option<Uring> {
    let refusal = match Uring::with_entries(2, 4) {
        Ok(uring) => return Some(uring),
        Err(error) => format!("io_uring is refused: {error}"),
    };
    assert!(std::env::var_os("REQUIRE_URING").is_none(), "{refusal}");
    let _ = io::stderr().write_all(format!("\nskipped: {refusal}\n").as_bytes());
    None
}

/// Returns a client, and the other end of its connection.
fn connected<S: Stream>() -> (UnixStream, S) {
    let (client, server) = UnixStream::pair().unwrap();
    server.set_nonblocking(true).unwrap();
    (client, S::new(server.into()).unwrap())
}

/// Waits until the stream is readable, and reads once into a buffer of this size.
async fn read<S: Stream>(stream: &S, room: usize) -> io::Result<Vec<u8>> {
    timeout(EVENT_TIMEOUT, stream.readable()).await.expect("the stream becomes readable")?;
    let mut bytes = Vec::with_capacity(room);
    stream.try_read(&mut bytes)?;
    Ok(bytes)
}

/// Finds that there is nothing to read, so that the next read must wait.
async fn find_empty<S: Stream>(stream: &S) {
    // A new stream may be readable at once.
    let _ = timeout(Duration::ZERO, stream.readable()).await;
    let read = stream.try_read(&mut Vec::with_capacity(64));
    assert_eq!(read.map_err(|error| error.kind()), Err(io::ErrorKind::WouldBlock));
}

async fn bytes_and_the_end_arrive<S: Stream>() {
    let (mut client, stream) = connected::<S>();
    find_empty(&stream).await;
    client.write_all(b"abcd").unwrap();
    assert_eq!(read(&stream, 3).await.unwrap(), b"abc");
    assert_eq!(read(&stream, 3).await.unwrap(), b"d", "a read that filled its buffer is followed by another one");
    drop(client);
    assert_eq!(read(&stream, 3).await.unwrap(), b"");
    assert_eq!(read(&stream, 3).await.unwrap(), b"", "the end lasts");
}

/// After a pause of the process, the deadline may be seen before the event loop has told what came.
async fn what_has_arrived_is_read_before_the_event_loop_tells<S: Stream>() {
    let (mut client, stream) = connected::<S>();
    find_empty(&stream).await;
    client.write_all(b"abcd").unwrap();
    assert!(stream.has_unread().unwrap());
    let mut bytes = Vec::with_capacity(64);
    assert_eq!(stream.try_read(&mut bytes).unwrap(), 4);
    client.write_all(b"e").unwrap();
    assert_eq!(read(&stream, 3).await.unwrap(), b"e", "what comes later is told");
}

async fn a_full_stream_becomes_writable<S: Stream>() {
    let (mut client, stream) = connected::<S>();
    let mut sent = 0;
    while let Ok(bytes) = stream.try_write(&[0; 4096]) {
        sent += bytes;
    }
    let reader = std::thread::spawn(move || {
        client.read_exact(&mut vec![0; sent]).unwrap();
        client
    });
    timeout(EVENT_TIMEOUT, stream.writable()).await.expect("the stream becomes writable").unwrap();
    assert!(stream.try_write(b"x").is_ok());
    assert_eq!(reader.join().unwrap().read(&mut [0]).unwrap(), 1);
}

/// A wait that was given up, a wait that lasts, and none: the client sees the end of each stream that is dropped.
async fn a_dropped_stream_is_closed<S: Stream>() {
    for (is_polled, is_given_up) in [(false, false), (true, true), (true, false)] {
        let (mut client, stream) = connected::<S>();
        find_empty(&stream).await;
        let task = spawn_local(async move {
            if is_polled && is_given_up {
                let _ = timeout(Duration::from_millis(1), stream.readable()).await;
            } else if is_polled {
                let _ = stream.readable().await;
            }
        });
        if is_polled && !is_given_up {
            // The task waits by then, and is ended from outside.
            tokio::time::sleep(Duration::from_millis(1)).await;
            task.abort();
        }
        let _ = task.await;
        client.set_nonblocking(true).unwrap();
        let is_ended = async {
            while client.read(&mut [0]).is_err() {
                tokio::task::yield_now().await;
            }
        };
        timeout(EVENT_TIMEOUT, is_ended).await.expect("the client sees the end");
    }
}

/// More streams wait than fit into small queues of a ring.
async fn no_stream_of_many_is_forgotten<S: Stream>() {
    const STREAMS: usize = 100;
    let mut connections: Vec<_> = std::iter::repeat_with(connected::<S>).take(STREAMS).collect();
    for (_, stream) in &connections {
        find_empty(stream).await;
    }
    for _ in 0..3 {
        let (clients, streams): (Vec<_>, Vec<_>) = connections.into_iter().unzip();
        let waiting = streams.into_iter().map(|stream| {
            spawn_local(async move {
                assert_eq!(read(&stream, 64).await.unwrap(), b"x");
                stream
            })
        });
        let waiting: Vec<_> = waiting.collect();
        tokio::task::yield_now().await;
        let mut streams = Vec::new();
        clients.iter().for_each(|mut client| client.write_all(b"x").unwrap());
        for task in waiting {
            streams.push(task.await.unwrap());
        }
        connections = clients.into_iter().zip(streams).collect();
    }
}

/// A worker that waits for a permit looks whether its connection is still there.
#[test]
fn a_connection_that_another_worker_has_accepted_is_not_acceptable() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    Epoll::new().unwrap().block_on(async {
        let one = <AsyncFd<OwnedFd> as TransportListener>::new(listener.try_clone().unwrap().into()).unwrap();
        for _ in 0..2 {
            assert!(!one.is_acceptable());
            let _client = std::net::TcpStream::connect(address).unwrap();
            assert!(one.is_acceptable());
            timeout(EVENT_TIMEOUT, one.acceptable()).await.expect("a connection has come").unwrap();
            assert!(one.is_acceptable());
            listener.accept().unwrap();
            assert!(!one.is_acceptable());
            assert!(timeout(Duration::from_millis(1), one.acceptable()).await.is_err(), "nobody waits");
        }
    });
}

async fn everything<S: Stream>() {
    bytes_and_the_end_arrive::<S>().await;
    what_has_arrived_is_read_before_the_event_loop_tells::<S>().await;
    a_full_stream_becomes_writable::<S>().await;
    a_dropped_stream_is_closed::<S>().await;
    no_stream_of_many_is_forgotten::<S>().await;
}

#[test]
fn epoll_loses_nothing_and_leaves_nothing_open() {
    let epoll = Epoll::new().unwrap();
    epoll.block_on(everything::<<Epoll as Transport>::Stream>());
}

#[test]
fn uring_loses_nothing_and_leaves_nothing_open() {
    let Some(uring) = uring() else { return };
    uring.block_on(everything::<<Uring as Transport>::Stream>());
}

/// A poll in flight keeps its socket open; the end of the event loop ends the poll.
#[test]
fn an_event_loop_that_ends_closes_what_it_waited_for() {
    let Some(uring) = uring() else { return };
    let (client, stream) = connected::<<Uring as Transport>::Stream>();
    client.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
    uring.block_on(async {
        find_empty(&stream).await;
        let task = spawn_local(async move { stream.readable().await });
        let _ = timeout(Duration::from_millis(1), task).await;
    });
    drop(uring);
    assert_eq!((&client).read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_wait_that_the_kernel_refuses_fails_with_its_error() {
    let Some(uring) = uring() else { return };
    // Such a descriptor stands for a place alone, and has no operations (open(2)).
    let place = rustix::fs::open("/", rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    let stream = <Uring as Transport>::Stream::new(place).unwrap();
    let waited =
        uring.block_on(async { timeout(EVENT_TIMEOUT, stream.writable()).await.expect("an error comes at once") });
    assert_eq!(waited.map_err(|error| error.raw_os_error()), Err(Some(Errno::BADF.raw_os_error())));
}
