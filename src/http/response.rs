//! Answers as bytes (RFC 9112 §4). Each answer is counted where it is written.

use crate::http::context::Context;
use crate::http::h1::head::{Method, PROXY};
use crate::http::h1::{SyntaxFault, Version};
use crate::http::policy::AllowedOrigins;
use crate::http::problem::{Problem, Status};
use crate::http::request::Request;

/// The interim answer that asks for the body (RFC 9110 §15.2.1).
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Seconds for which a browser may keep the answer to a preflight. No browser honours more than a day.
const PREFLIGHT_MAX_AGE_S: u32 = 86_400;

/// Plain text, for a person.
const HTTPS_ONLY: &str = "This port speaks https: use https:// in the address, not http://.\n";

/// Appends 200: the message is in the queue to the hub.
pub fn accepted<P>(request: &Request, out: &mut Vec<u8>, context: &Context<P>) {
    head(Status::Ok, request, out, context);
    out.extend_from_slice(b"Content-Type: application/json\r\nContent-Length: 22\r\n\r\n{\"status\":\"accepted\"}\n");
}

/// Appends 204: what is allowed, also as the answer to a CORS preflight (Fetch §3.2.3).
pub(super) fn options<P>(request: &Request, out: &mut Vec<u8>, context: &Context<P>) {
    head(Status::NoContent, request, out, context);
    out.extend_from_slice(b"Allow: POST, OPTIONS\r\n");
    if context.policy.origins == AllowedOrigins::Any || request.origin.is_some() {
        // No browser adds the token itself, so a page may send any field. `*` is not Authorization (Fetch §2.2.2).
        out.extend_from_slice(
            b"Access-Control-Allow-Methods: POST\r\n\
              Access-Control-Allow-Headers: Content-Type, Authorization, *\r\n",
        );
        put(out, ["Access-Control-Max-Age: ", &PREFLIGHT_MAX_AGE_S.to_string(), "\r\n"]);
        if request.private_network {
            out.extend_from_slice(b"Access-Control-Allow-Private-Network: true\r\n");
        }
    }
    out.extend_from_slice(b"\r\n");
}

pub(super) fn problem<P>(problem: &Problem, request: &Request, out: &mut Vec<u8>, context: &Context<P>) {
    let (status, document) = problem.document();
    head(status, request, out, context);
    if let Problem::Unavailable(reason) = problem {
        context.counters.refused.of(*reason).add(1);
    }
    out.extend_from_slice(problem.field_lines().as_bytes());
    content("application/problem+json", &document, request, out);
}

/// Appends 400, in plain text, to plain http where https is spoken, or to a proxy that sends its line before TLS.
pub fn https_only<P>(first: &[u8], out: &mut Vec<u8>, context: &Context<P>) {
    let request = Request::unread(first);
    head(Status::BadRequest, &request, out, context);
    let is_proxy = first.starts_with(PROXY);
    let text = if is_proxy { &format!("{}\n", SyntaxFault::Proxy.reason()) } else { HTTPS_ONLY };
    content("text/plain; charset=utf-8", text, &request, out);
}

/// Ends the head and appends the content. The answer to HEAD has none (RFC 9110 §9.3.2).
fn content(media_type: &str, content: &str, request: &Request, out: &mut Vec<u8>) {
    put(out, ["Content-Type: ", media_type, "\r\nContent-Length: ", &content.len().to_string(), "\r\n\r\n"]);
    if request.method != Method::Head {
        out.extend_from_slice(content.as_bytes());
    }
}

fn head<P>(status: Status, request: &Request, out: &mut Vec<u8>, context: &Context<P>) {
    context.counters.answers.of(status).add(1);
    if status == Status::Ok {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\nDate: ");
    } else {
        put(out, ["HTTP/1.1 ", &status.code().to_string(), " ", status.reason(), "\r\nDate: "]);
    }
    out.extend_from_slice(&context.date);
    out.extend_from_slice(b"\r\n");
    allowed_origin(&context.policy.origins, request.origin, out);
    match (request.persistent, request.version) {
        (false, _) => out.extend_from_slice(b"Connection: close\r\n"),
        (true, Version::Http10) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        (true, Version::Http11) => {}
    }
}

/// Appends all parts. It takes a third of the instructions of a format.
fn put<const N: usize>(out: &mut Vec<u8>, parts: [&str; N]) {
    parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
}

/// Appends the field lines that tell a browser who may read the answer.
fn allowed_origin(origins: &AllowedOrigins, origin: Option<usize>, out: &mut Vec<u8>) {
    let AllowedOrigins::These(origins) = origins else {
        return out.extend_from_slice(b"Access-Control-Allow-Origin: *\r\n");
    };
    if let Some(index) = origin {
        debug_assert!(index < origins.len(), "the index comes from the list itself");
        if let Some(origin) = origins.get(index) {
            out.extend_from_slice(b"Access-Control-Allow-Origin: ");
            out.extend_from_slice(origin.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
    // Fetch §3.2.5: an answer that depends on the origin says so, whether or not the origin is allowed.
    out.extend_from_slice(b"Vary: Origin\r\n");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::http::policy::Policy;
    use crate::sync::budget::Budget;

    #[test]
    fn plain_http_is_answered_in_plain_text() {
        let context = Context::new(Policy::default(), Budget::new(0), Arc::default(), ());
        let answer = |first: &[u8]| {
            let mut out = Vec::new();
            https_only(first, &mut out, &context);
            String::from_utf8(out).unwrap()
        };
        let text = answer(b"GET / HTTP/1.1");
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\nDate: "), "{head}");
        for line in ["Connection: close".to_owned(), format!("Content-Length: {}", body.len())] {
            assert!(head.lines().any(|known| known == line), "{line} in {head}");
        }
        assert!(body.contains("https://"));
        assert_eq!(answer(b"HEAD /"), format!("{head}\r\n\r\n"));
        assert_eq!(answer(b"HEADER /"), text);
        let proxy = answer(b"PROXY TCP4 127.0.0.1 127.0.0.1 50000 12358\r\n");
        assert!(proxy.contains("\r\n\r\nthe PROXY protocol") && !proxy.contains("https"), "{proxy}");
    }
}
