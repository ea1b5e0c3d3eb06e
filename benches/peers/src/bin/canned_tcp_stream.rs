//! A canned answer by tokio-uring's own streams: what a server costs that uses the runtime as it comes.

use std::io;
use std::rc::Rc;

use adapter_gateway::server::transport::Transport;
use adapter_gateway::server::transport::uring::Uring;
use peers::Outcome;
use peers::canned::answer;
use peers::requests::Requests;
use peers::start::{Arguments, announce};
use tokio_uring::net::{TcpListener, TcpStream};

/// Bytes read at once, into a buffer of each connection: a pipeline of some dozen small requests.
const READ_BYTES: usize = 8 * 1024;

fn main() -> Outcome {
    let socket = Arguments::of_process().listen()?;
    let answer: Rc<[u8]> = answer().into();
    Uring::new()?.block_on(async {
        announce("http", &socket)?;
        let listener = TcpListener::from_std(socket);
        loop {
            let (stream, _peer) = listener.accept().await?;
            stream.set_nodelay(true)?;
            // A client that breaks off is no fault of the server's.
            let served = attend(stream, Rc::clone(&answer));
            tokio_uring::spawn(async { drop(served.await) });
        }
    })
}

async fn attend(stream: TcpStream, answer: Rc<[u8]>) -> io::Result<()> {
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
