//! The least that a server on a runtime costs: each request gets the same answer, which is made at the start. These
//! servers check no token, parse no JSON, and publish nothing.

use std::cell::RefCell;
use std::io;
use std::mem::MaybeUninit;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use adapter_gateway::http::h1::request::{self, Method};
use adapter_gateway::http::policy::Policy;
use adapter_gateway::http::{Context, response};
use adapter_gateway::server::transport::{Stream, Transport, TransportListener};
use adapter_gateway::sync::budget::Budget;
use httparse::{Request, Status};
use socket2::Domain;
use tokio::task::spawn_local;
use tokio_uring::net::{TcpListener, TcpStream};

use crate::{Arguments, Outcome, announce};

/// Bytes that are read at once, as many as the gateway reads.
const READ_BYTES: usize = 64 * 1024;
/// The same for a connection that has a buffer of its own. A pipeline of some dozen small requests fits.
const OWN_READ_BYTES: usize = 8 * 1024;
/// Entries of the submission queue. More operations than these are submitted in several calls.
const RING_ENTRIES: u32 = 1024;

/// What all connections share. No connection holds a buffer while it waits.
struct Buffers {
    answer: Vec<u8>,
    input: RefCell<Vec<u8>>,
    output: RefCell<Vec<u8>>,
}

/// Serves on an event loop of `T` until the process ends. It waits, reads and writes as the gateway does: on the
/// gateway's event loop, with `recv(2)` into a buffer that all connections share, and with one `send(2)` for all the
/// answers to one read.
pub(crate) fn serve<T: Transport>(arguments: &Arguments) -> Outcome {
    let socket = arguments.listen()?;
    let (input, output) = (RefCell::new(Vec::with_capacity(READ_BYTES)), RefCell::default());
    let shared = Rc::new(Buffers { answer: answer(), input, output });
    T::new()?.block_on(async {
        announce("http", &socket)?;
        if socket.domain()? != Domain::UNIX {
            // Linux hands the option on to the connections.
            socket.set_tcp_nodelay(true)?;
        }
        let listener = T::Listener::new(socket.into())?;
        loop {
            listener.acceptable().await?;
            match listener.accept() {
                Ok(socket) => {
                    // An error ends this connection alone.
                    let served = serve_connection(T::Stream::new(socket)?, Rc::clone(&shared));
                    spawn_local(async { drop(served.await) });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    })
}

/// Returns the answer of the gateway to an accepted message, with the date of the start.
fn answer() -> Vec<u8> {
    let mut context = Context::new(Policy::default(), Budget::new(0), Arc::default(), ());
    context.set_date(SystemTime::now());
    let request = request::Request { persistent: true, method: Method::Post, ..request::Request::default() };
    response::accepted(&request, &mut context);
    context.answers
}

async fn serve_connection<S: Stream>(stream: S, shared: Rc<Buffers>) -> io::Result<()> {
    let mut requests = Requests::default();
    loop {
        stream.readable().await?;
        let Some(unsent) = read_and_answer(&stream, &mut requests, &shared)? else { return Ok(()) };
        let mut rest = unsent.as_slice();
        while !rest.is_empty() {
            stream.writable().await?;
            rest = send_some(&stream, rest)?;
        }
    }
}

/// Reads once, and answers the requests that end in what was read. Returns the part of the answers that the socket did
/// not take, and `None` at the end of the connection.
fn read_and_answer<S: Stream>(stream: &S, requests: &mut Requests, shared: &Buffers) -> io::Result<Option<Vec<u8>>> {
    let (mut input, mut output) = (shared.input.borrow_mut(), shared.output.borrow_mut());
    input.clear();
    match stream.try_read(&mut input) {
        Ok(0) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Some(Vec::new())),
        read => read?,
    };
    requests.answer(&input, &shared.answer, &mut output)?;
    Ok(Some(send_some(stream, &output)?.to_vec()))
}

/// Sends as much as the socket takes now. Returns the rest.
fn send_some<'b, S: Stream>(stream: &S, mut rest: &'b [u8]) -> io::Result<&'b [u8]> {
    while !rest.is_empty() {
        match stream.try_write(rest) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            taken => rest = rest.get(taken?..).unwrap_or_default(),
        }
    }
    Ok(rest)
}

/// Serves with the streams of tokio-uring: the cost of a server that uses this runtime as it is.
pub(crate) fn serve_streams(arguments: &Arguments) -> Outcome {
    let socket = arguments.listen()?;
    let answer: Rc<[u8]> = answer().into();
    let mut ring = tokio_uring::uring_builder();
    // The thread that submits also handles the completions, so the kernel need not interrupt it.
    ring.setup_coop_taskrun().setup_single_issuer();
    tokio_uring::Runtime::new(tokio_uring::builder().entries(RING_ENTRIES).uring_builder(&ring))?.block_on(async {
        announce("http", &socket)?;
        let listener = TcpListener::from_std(socket.into());
        loop {
            let (stream, _peer) = listener.accept().await?;
            stream.set_nodelay(true)?;
            // An error ends this connection alone.
            let served = serve_stream(stream, Rc::clone(&answer));
            tokio_uring::spawn(async { drop(served.await) });
        }
    })
}

async fn serve_stream(stream: TcpStream, answer: Rc<[u8]>) -> io::Result<()> {
    let mut requests = Requests::default();
    let (mut input, mut output) = (vec![0; OWN_READ_BYTES], Vec::new());
    loop {
        let (read, buffer) = stream.read(input).await;
        input = buffer;
        let Some(bytes) = input.get(..read?).filter(|bytes| !bytes.is_empty()) else { return Ok(()) };
        requests.answer(bytes, &answer, &mut output)?;
        let (written, buffer) = stream.write_all(output).await;
        output = buffer;
        written?;
    }
}

const FIELD_LINES: usize = 64;

#[derive(Default)]
pub(crate) struct Requests {
    /// The beginning of a head whose end has not come yet.
    head: Vec<u8>,
    /// How many bytes of a body have not come yet.
    body: Option<usize>,
}

impl Requests {
    /// Takes the next input of a connection, which may begin and end anywhere. Writes `answer` for each request that
    /// ends in it into `output`, in place of what is there. Fails if the input is not HTTP, or its body has another
    /// framing.
    pub(crate) fn answer(&mut self, input: &[u8], answer: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
        output.clear();
        let mut held = std::mem::take(&mut self.head);
        let mut rest = input;
        if !held.is_empty() {
            held.extend_from_slice(input);
            rest = &held;
        }
        while !rest.is_empty() {
            let body = match self.body.take() {
                Some(body) => body,
                None => {
                    let Some((behind, body)) = framing(rest)? else {
                        self.head = rest.to_vec();
                        break;
                    };
                    rest = behind;
                    body
                }
            };
            let Some((_, behind)) = rest.split_at_checked(body) else {
                self.body = Some(body - rest.len());
                break;
            };
            output.extend_from_slice(answer);
            rest = behind;
        }
        Ok(())
    }
}

/// Returns what follows the head that `bytes` begin with, and the length of the body. Returns `None` if the head has no
/// end yet.
fn framing(bytes: &[u8]) -> io::Result<Option<(&[u8], usize)>> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELD_LINES];
    let mut request = Request::new(&mut []);
    let parsed = request.parse_with_uninit_headers(bytes, &mut fields).map_err(io::Error::other)?;
    let Status::Complete(head) = parsed else { return Ok(None) };
    let length = request.headers.iter().find(|field| field.name.eq_ignore_ascii_case("content-length"));
    let body = length.map_or(Some(0), |field| str::from_utf8(field.value).ok()?.parse().ok());
    bytes.get(head..).zip(body).map(Some).ok_or_else(|| io::Error::other("a length that is no number"))
}
