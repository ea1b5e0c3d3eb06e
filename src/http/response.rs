//! Answers as bytes (RFC 9112 §4). Each answer is counted where it is written.

use crate::http::context::Context;
use crate::http::h1::RequestFault;
use crate::http::h1::head::PROXY;
use crate::http::h1::request::{Method, Request, Version};
use crate::http::policy::AllowedOrigins;
use crate::http::problem::{Problem, Status};

/// The interim answer that asks for the body (RFC 9110 §15.2.1).
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Appends 200: the message is in the queue to the hub.
pub fn accepted<P>(request: &Request, context: &mut Context<P>) {
    let out = head(Status::Ok, request, context);
    out.extend_from_slice(b"Content-Type: application/json\r\nContent-Length: 22\r\n\r\n{\"status\":\"accepted\"}\n");
}

/// Appends 204: what is allowed, also as the answer to a CORS preflight (Fetch §3.2.3).
pub(super) fn options<P>(request: &Request, context: &mut Context<P>) {
    let is_allowed_origin = context.policy.origins == AllowedOrigins::Any || request.origin.is_some();
    let out = head(Status::NoContent, request, context);
    out.extend_from_slice(b"Allow: POST, OPTIONS\r\n");
    if is_allowed_origin {
        // No browser adds the token itself, so a page may send any field. `*` is not Authorization (Fetch §2.2.2). No
        // browser keeps the answer for more than a day.
        out.extend_from_slice(
            b"Access-Control-Allow-Methods: POST\r\n\
              Access-Control-Allow-Headers: Content-Type, Authorization, *\r\n\
              Access-Control-Max-Age: 86400\r\n",
        );
        if request.private_network {
            out.extend_from_slice(b"Access-Control-Allow-Private-Network: true\r\n");
        }
    }
    out.extend_from_slice(b"\r\n");
}

pub(super) fn problem<P>(problem: &Problem, request: &Request, context: &mut Context<P>) {
    let (status, field_lines, document) = problem.answer();
    if let Problem::Unavailable(reason) = problem {
        context.counters.refused.of(*reason).add(1);
    }
    let out = head(status, request, context);
    out.extend_from_slice(field_lines.as_bytes());
    content("Content-Type: application/problem+json\r\n", &document, request, out);
}

/// Appends 400, in plain text, to plain http where https is spoken, or to a proxy that sends its line before TLS.
pub fn https_only<P>(first: &[u8], context: &mut Context<P>) {
    // The rest of the method is not waited for, and no other known one begins like HEAD.
    let request = Request::unread(if b"HEAD ".starts_with(first) { b"HEAD " } else { first });
    let out = head(Status::BadRequest, &request, context);
    let text = match first.starts_with(PROXY) {
        true => &format!("{}\n", RequestFault::Proxy.reason()),
        false => "This port speaks https: use https:// in the address, not http://.\n",
    };
    content("Content-Type: text/plain; charset=utf-8\r\n", text, &request, out);
}

/// Ends the head and appends the content. The answer to HEAD has none (RFC 9110 §9.3.2).
fn content(type_line: &str, content: &str, request: &Request, out: &mut Vec<u8>) {
    put(out, [type_line, "Content-Length: ", &content.len().to_string(), "\r\n\r\n"]);
    if request.method != Method::Head {
        out.extend_from_slice(content.as_bytes());
    }
}

/// Begins an answer, and counts it. Returns where the rest goes.
fn head<'c, P>(status: Status, request: &Request, context: &'c mut Context<P>) -> &'c mut Vec<u8> {
    context.counters.answers.of(status).add(1);
    let out = &mut context.answers;
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
    out
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
    debug_assert!(origin.is_none_or(|index| index < origins.len()), "the index comes from the list itself");
    if let Some(origin) = origin.and_then(|index| origins.get(index)) {
        put(out, ["Access-Control-Allow-Origin: ", origin, "\r\n"]);
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

    /// The other answers in plain text are those of `tests/process/https`.
    #[test]
    fn a_proxy_that_sends_its_line_before_tls_is_not_told_of_https() {
        let mut context = Context::new(Policy::default(), Budget::new(0), Arc::default(), ());
        https_only(b"PROXY TCP4 127.0.0.1 127.0.0.1 50000 12358\r\n", &mut context);
        let answer = String::from_utf8(context.answers).unwrap();
        assert!(answer.contains("\r\n\r\nthe PROXY protocol") && !answer.contains("https"), "{answer}");
    }
}
