//! The least that a server on a runtime costs: each request gets the same answer, which is made at the start. This
//! server checks no token, parses no JSON, and publishes nothing.
//!
//! It waits, reads and writes as the gateway does: on the gateway's event loop, with `recv(2)` into a buffer that all
//! connections share, and with one `send(2)` for all the answers to one read.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use adapter_gateway::http::Context;
use adapter_gateway::http::h1::request::{Method, Request};
use adapter_gateway::http::policy::Policy;
use adapter_gateway::http::response;
use adapter_gateway::server::transport::{Stream, Transport, TransportListener};
use adapter_gateway::sync::budget::Budget;
use socket2::Domain;
use tokio::task::spawn_local;

use crate::Outcome;
use crate::requests::Requests;
use crate::start::{Arguments, announce};

/// Bytes that are read at once, as many as the gateway reads.
const READ_BYTES: usize = 64 * 1024;

/// What all connections share. No connection holds a buffer while it waits.
struct SharedBuffers {
    answer: Vec<u8>,
    input: RefCell<Vec<u8>>,
    output: RefCell<Vec<u8>>,
}

/// Serves on an event loop of `T` until the process ends.
pub(crate) fn serve<T: Transport>(arguments: &Arguments) -> Outcome {
    let socket = arguments.listen()?;
    let shared = Rc::new(SharedBuffers {
        answer: answer(),
        input: RefCell::new(Vec::with_capacity(READ_BYTES)),
        output: RefCell::default(),
    });
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
                Ok(socket) => drop(spawn_local(serve_connection(T::Stream::new(socket)?, Rc::clone(&shared)))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
    })
}

/// Returns the answer of the gateway to an accepted message, with the date of the start.
pub(crate) fn answer() -> Vec<u8> {
    let mut context = Context::new(Policy::default(), Budget::new(0), Arc::default(), ());
    context.set_date(SystemTime::now());
    let request = Request { persistent: true, method: Method::Post, ..Request::default() };
    response::accepted(&request, &mut context);
    context.answers
}

async fn serve_connection<S: Stream>(stream: S, shared: Rc<SharedBuffers>) {
    let mut requests = Requests::default();
    // An error ends this connection alone.
    while let Ok(true) = answer_requests(&stream, &mut requests, &shared).await {}
}

/// Waits for requests and answers them. Returns whether the connection stays open.
async fn answer_requests<S: Stream>(stream: &S, requests: &mut Requests, shared: &SharedBuffers) -> io::Result<bool> {
    stream.readable().await?;
    let Some(unsent) = read_and_answer(stream, requests, shared)? else { return Ok(false) };
    let mut rest = unsent.as_slice();
    while !rest.is_empty() {
        stream.writable().await?;
        rest = send_some(stream, rest)?;
    }
    Ok(true)
}

/// Reads once, and answers the requests that end in what was read. Returns the part of the answers that the socket did
/// not take, and `None` at the end of the connection.
fn read_and_answer<S: Stream>(
    stream: &S,
    requests: &mut Requests,
    shared: &SharedBuffers,
) -> io::Result<Option<Vec<u8>>> {
    let (mut input, mut output) = (shared.input.borrow_mut(), shared.output.borrow_mut());
    input.clear();
    match stream.try_read(&mut input) {
        Ok(0) => return Ok(None),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Some(Vec::new())),
        Err(error) => return Err(error),
    }
    let Ok(ended) = requests.ends_in(&input) else { return Ok(None) };
    output.clear();
    for _ in 0..ended {
        output.extend_from_slice(&shared.answer);
    }
    Ok(Some(send_some(stream, &output)?.to_vec()))
}

/// Sends as much as the socket takes now. Returns the rest.
fn send_some<'b, S: Stream>(stream: &S, bytes: &'b [u8]) -> io::Result<&'b [u8]> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match stream.try_write(rest) {
            Ok(taken) => rest = rest.get(taken..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(rest)
}
