//! Clients that break off, or that send what must be refused. Whatever they send holds a real message, so that one that
//! is published in spite of its refusal is noticed.

use crate::account::Outcome;
use crate::clients::{Client, bounded};
use crate::stream::{Stream, Way};
use crate::support::Request;

/// Requests that are sent by a client that does not read their answers.
const UNREAD: usize = 20;

pub(crate) async fn live(client: &mut Client) {
    if client.way == Way::Tcp && client.world.tls().is_some() && client.random.permille(100) {
        return speak_http_to_https(client).await;
    }
    let Some(stream) = client.connect().await else { return };
    match client.random.within(0..10) {
        0 => leave(client, stream),
        1 | 2 => send_a_part(client, stream).await,
        3 | 4 => leave_without_answer(client, stream).await,
        _ => be_refused(client, stream).await,
    }
}

fn leave(client: &mut Client, stream: Stream) {
    match client.random.within(0..3) {
        0 => stream.close(),
        1 => stream.reset(),
        _ => drop(stream),
    }
}

/// Sends a request up to a byte before its end.
async fn send_a_part(client: &mut Client, mut stream: Stream) {
    let (sent, request) = client.message();
    let bytes = request.bytes();
    let part = if client.random.permille(500) { bytes.len() - 1 } else { client.random.within(1..bytes.len()) };
    client.world.account().set(sent.number, Outcome::Incomplete);
    client.begin_request();
    let _ = bounded(&client.world, "write", stream.write(&bytes[..part])).await;
    if client.random.permille(300) {
        stream.half_close();
        // An incomplete request is 400, in TLS without close_notify there is no answer.
        let _ = bounded(&client.world, "answer to a half-close", async { Ok(stream.ends_silently().await) }).await;
    } else {
        leave(client, stream);
    }
}

/// Sends whole requests and does not wait for their answers.
async fn leave_without_answer(client: &mut Client, mut stream: Stream) {
    let count = if client.random.permille(500) { 1 } else { client.random.within(2..UNREAD) };
    let requests: Vec<u8> = (0..count).flat_map(|_| client.message().1.bytes()).collect();
    client.begin_request();
    let write = stream.write(&requests);
    // The gateway takes no further requests while the client takes no answers.
    let time = client.random.pause_ms(1..3_000);
    if tokio::time::timeout(time, write).await.is_ok() {
        client.world.pause(client.random.pause_ms(0..3_000)).await;
    }
    leave(client, stream);
}

/// Sends a request that is wrong in one way, and reads its refusal.
async fn be_refused(client: &mut Client, mut stream: Stream) {
    let (sent, request) = client.message();
    let (status, bytes) = wrong(client, &request);
    client.begin_request();
    let _ = bounded(&client.world, "write", stream.write(&bytes)).await;
    client.read(&mut stream, sent, status).await;
    leave(client, stream);
}

/// Makes a request wrong. Returns the status of its refusal.
fn wrong(client: &mut Client, right: &Request) -> (u16, Vec<u8>) {
    let bytes = |request: Request| request.bytes();
    let right = right.clone();
    let other = |body: Vec<u8>| Request::post(&format!("/api/message?token={}", client.world.token()), body);
    let body = right.body().to_vec();
    match client.random.within(0..14) {
        0 => (401, bytes(right.target("/api/message?token=wrong"))),
        1 => (401, bytes(right.target("/api/message"))),
        2 => {
            let target = format!("/api/message?token={}", client.world.former_token());
            (401, bytes(right.target(&target)))
        }
        3 => (400, bytes(other([&body[..], b"}"].concat()))),
        4 => (400, bytes(other(body[..body.len() - 1].to_vec()))),
        5 => {
            let body = String::from_utf8(body).expect("JSON text");
            (422, bytes(other(body.replacen(r#""payload":{"#, r#""payload":1,"p":{"#, 1).into_bytes())))
        }
        6 => (404, bytes(right.target("/api/messages"))),
        7 => (405, bytes(right.method("PUT"))),
        8 => (415, bytes(right.without("Content-Type").field("Content-Type", "text/plain"))),
        9 => (417, bytes(right.field("Expect", "something"))),
        10 => (400, bytes(right.field("Content-Length", "1").field("Transfer-Encoding", "chunked"))),
        11 => (400, bytes(right.field("Host", "other"))),
        12 => (505, bytes(right.version("HTTP/2.0"))),
        _ => (413, bytes(right.field("Content-Length", "99999999"))),
    }
}

/// The port speaks https. The answer is in http, and in plain text.
async fn speak_http_to_https(client: &mut Client) {
    let connected = Stream::connect(&client.world, client.way, false);
    let Some(mut stream) = client.explained("connect", connected).await else { return };
    let (sent, request) = client.message();
    client.begin_request();
    let _ = bounded(&client.world, "write", stream.write(&request.bytes())).await;
    client.read(&mut stream, sent, 400).await;
}
