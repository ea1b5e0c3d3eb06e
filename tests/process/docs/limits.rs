//! The limits in docs/reference.md are those of the program.

use adapter_gateway::bus::MAX_PUBLISHERS;
use adapter_gateway::http::connection::DISCARD_BYTES;
use adapter_gateway::http::h1::chunked::{CHUNK_LINE_BYTES, EXTENSION_BYTES, TRAILER_BYTES};
use adapter_gateway::http::h1::head::{FIELD_LINES, TARGET_BYTES};
use adapter_gateway::message::MAX_DEPTH;
use adapter_gateway::sync::limits::MAX_TOPIC_BYTES;
use adapter_gateway::zmtp;

use super::document::Document;

/// Returns a number of bytes as the documents write it.
fn bytes(bytes: usize) -> String {
    match bytes {
        _ if bytes > 2048 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes > 2048 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        1_000.. => format!("{},{:03} bytes", bytes / 1_000, bytes % 1_000),
        _ => format!("{bytes} bytes"),
    }
}

#[test]
fn limits_are_those_of_the_program() {
    let reference = Document::read("docs/reference.md");
    let thousands = |count: usize| format!("{},{:03}", count / 1_000, count % 1_000);
    for sentence in [
        format!("| `topic` | 1 to {}, ", bytes(MAX_TOPIC_BYTES)),
        format!("| nesting | {MAX_DEPTH} levels |"),
        format!("| request target | {} |", bytes(TARGET_BYTES)),
        format!("| header fields | {FIELD_LINES} |"),
        format!(
            "| a chunk-size line; all chunk extensions together; all trailers together | {}; {}; {} |",
            bytes(CHUNK_LINE_BYTES as usize),
            bytes(EXTENSION_BYTES as usize),
            bytes(TRAILER_BYTES as usize)
        ),
        format!(
            "| a refused body that the gateway reads to keep the connection open | {} |",
            bytes(DISCARD_BYTES as usize)
        ),
        format!(
            "| `READY`; any other command except a subscription | {}; {} |",
            bytes(zmtp::READY_BYTES as usize),
            bytes(zmtp::COMMAND_BYTES as usize)
        ),
        format!("| the subscriptions of one peer | {}.", thousands(zmtp::CONNECTION_PREFIXES)),
        format!("| the subscriptions of all peers together | {}.", thousands(zmtp::SHARED_PREFIXES)),
        format!(
            "| peers; time for the handshake | [{} subscribers, {} publishers and ",
            zmtp::MAX_SUBSCRIBERS,
            MAX_PUBLISHERS
        ),
    ] {
        assert!(reference.text.contains(&sentence), "docs/reference.md does not say: {sentence}");
    }
}
