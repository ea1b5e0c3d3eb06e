//! HTTP: the state machine of a connection, who may pass, and the answers, with no I/O and no clock.
//!
//! A request meets [`connection`], [`h1`], [`admission`], `body`, [`context`] and [`response`], in this
//! order. [`problem`] has every reason to refuse, [`policy`] the limits and rules, and [`timing`] says when a
//! connection waits, reads, answers that a request is late, or closes.
//!
//! ```
//! use std::sync::Arc;
//!
//! use adapter_gateway::http::connection::{CloseReason, Next, Waiting};
//! use adapter_gateway::http::{Connection, Context, policy::Policy};
//! use adapter_gateway::message::publish::{Payload, Publish, Unavailable};
//! use adapter_gateway::{sync::budget::Budget, terms::token::Token};
//!
//! struct Printer;
//!
//! impl Publish for Printer {
//!     fn available(&self) -> Result<(), Unavailable> {
//!         Ok(())
//!     }
//!
//!     fn publish(&self, topic: &str, payload: Payload<'_>) -> Result<(), Unavailable> {
//!         println!("{topic}: {}", String::from_utf8_lossy(payload.bytes));
//!         Ok(())
//!     }
//! }
//!
//! let mut context = Context::new(Policy::default(), Budget::new(1 << 20), Arc::default(), Printer);
//! context.token = Token::new("secret");
//! let mut connection = Connection::default();
//! let mut receive = |bytes: &str| connection.receive(bytes.as_bytes(), &mut context);
//!
//! // The head is not whole, and then the body is not.
//! assert_eq!(receive("POST /api/message?token=secret HTTP/1.1\r\nHost: h\r\n"), Next::Read(Waiting::Head));
//! let rest_of_head = "Content-Type: application/json\r\nContent-Length: 26\r\n\r\n";
//! assert_eq!(receive(rest_of_head), Next::Read(Waiting::Body));
//! assert_eq!(receive(r#"{"topic":"t","payload":{}}"#), Next::Read(Waiting::Request));
//!
//! // A refusal that may go on drops the body.
//! let unknown_path = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n";
//! assert_eq!(receive(unknown_path), Next::Read(Waiting::Body));
//! assert_eq!(receive("abc"), Next::Read(Waiting::Request));
//!
//! // Any other one closes.
//! assert_eq!(receive("no request\r\n\r\n"), Next::Close(CloseReason::Refused));
//! let answers = String::from_utf8(context.answers).unwrap();
//! let statuses: Vec<_> = answers.lines().filter(|line| line.starts_with("HTTP/1.1 ")).collect();
//! assert_eq!(statuses, ["HTTP/1.1 200 OK", "HTTP/1.1 404 Not Found", "HTTP/1.1 400 Bad Request"]);
//! ```

pub mod admission;
mod body;
pub mod connection;
pub mod context;
pub mod h1;
pub mod policy;
pub mod problem;
pub mod response;
pub mod timing;

pub use connection::Connection;
pub use context::{Context, Input};
