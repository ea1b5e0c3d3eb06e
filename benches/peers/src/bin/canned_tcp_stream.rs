//! One constant answer with the streams of tokio-uring: the cost of a server that uses the runtime without changes.

use std::io;
use std::rc::Rc;

use adapter_gateway::server::transport::Transport;
use adapter_gateway::server::transport::uring::Uring;
use peers::Outcome;
use peers::canned::answer;
use peers::requests::Requests;
use peers::start::{Arguments, announce};
use tokio_uring::net::{TcpListener, TcpStream};

/// Bytes that are read at once into the buffer of a connection. A pipeline of some dozen small requests fits.
const READ_BYTES: usize = 8 * 1024;

fn main() -> Outcome {
    let socket = Arguments::from_command_line().listen()?;
    let answer: Rc<[u8]> = answer().into();
    Uring::new()?.block_on(async {
        announce("http", &socket)?;
        let listener = TcpListener::from_std(socket);
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
