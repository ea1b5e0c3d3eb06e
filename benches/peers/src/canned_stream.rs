//! One constant answer with the streams of tokio-uring: the cost of a server that uses this runtime as it is.

use std::io;
use std::rc::Rc;

use tokio_uring::net::{TcpListener, TcpStream};

use crate::Outcome;
use crate::canned::answer;
use crate::requests::Requests;
use crate::start::{Arguments, announce};

/// Bytes that are read at once into the buffer of a connection. A pipeline of some dozen small requests fits.
const READ_BYTES: usize = 8 * 1024;
/// Entries of the submission queue. More operations than these are submitted in several calls.
const RING_ENTRIES: u32 = 1024;

pub(crate) fn serve(arguments: &Arguments) -> Outcome {
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
            let served = serve_connection(stream, Rc::clone(&answer));
            tokio_uring::spawn(async { drop(served.await) });
        }
    })
}

async fn serve_connection(stream: TcpStream, answer: Rc<[u8]>) -> io::Result<()> {
    let mut requests = Requests::default();
    let (mut input, mut output) = (vec![0; READ_BYTES], Vec::new());
    loop {
        let (read, buffer) = stream.read(input).await;
        input = buffer;
        let Some(bytes) = input.get(..read?).filter(|bytes| !bytes.is_empty()) else { return Ok(()) };
        let Ok(ended) = requests.ends_in(bytes) else { return Ok(()) };
        output.clear();
        for _ in 0..ended {
            output.extend_from_slice(&answer);
        }
        let (written, buffer) = stream.write_all(output).await;
        output = buffer;
        written?;
    }
}
