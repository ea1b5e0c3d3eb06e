//! The text beside a connection's bytes: the rule, the limits that differ from the defaults, and the outcome.
//!
//! ```text
//! # RFC 9112 §6.3, item 3: both lengths.        the rule
//! with max-body 10                               a limit, where it is not the default
//! 200 keep, published TOPIC PAYLOAD              an answer, whether the connection stays, what was published
//! 400 close, KIND: DETAIL                        a problem document
//!     Allow: POST, OPTIONS                       a field that not every answer has
//! closed: refused                                the end
//! ```

use adapter_gateway::http::connection::{CloseReason, Waiting};
use adapter_gateway::http::policy::AllowedOrigins;
use adapter_gateway::message::publish::Unavailable;
use adapter_gateway::message::{Check, Encoding, Vocabulary};

use crate::properties::connection::{End, Outcome};
use crate::properties::context::Limits;
use crate::support::recorded::Recorded;

pub(crate) fn limits(recorded: &Recorded) -> Limits {
    let mut limits = Limits::default();
    for (name, value) in recorded.limits() {
        match name {
            "max-head" => limits.policy.limits.head_bytes = value.parse().unwrap(),
            "max-body" => limits.policy.limits.body_bytes = value.parse().unwrap(),
            "max-buffered" => limits.buffered_bytes = value.parse().unwrap(),
            "queue" => limits.queue = value.parse().unwrap(),
            "no-hub" => limits.unavailable = Some(Unavailable::NotConnected),
            "stalled" => limits.unavailable = Some(Unavailable::Stalled),
            "stopping" => limits.unavailable = Some(Unavailable::Stopping),
            "disabled" => limits.token = None,
            "unix" => limits.is_unix = true,
            "strict" => limits.policy.rules.check = Check::Strict,
            "envelope" => limits.policy.rules.check = Check::Envelope,
            "older" => limits.policy.rules.vocabulary = Vocabulary::Older,
            "newer" => limits.policy.rules.vocabulary = Vocabulary::Newer,
            "msgpack" => limits.policy.encoding = Encoding::Msgpack,
            "origin" => limits.policy.origins = AllowedOrigins::These(value.split(' ').map(Into::into).collect()),
            _ => panic!("no limit is called {name}"),
        }
    }
    limits
}

pub(crate) fn render(outcome: &Outcome) -> String {
    let mut published = outcome.published.iter();
    let told = outcome.answers.iter().map(|answer| {
        answer.told(|| {
            let message = published.next().unwrap();
            format!("{} {}", message.topic, String::from_utf8_lossy(&message.payload))
        })
    });
    told.collect::<String>() + end(outcome.end) + "\n"
}

fn end(end: End) -> &'static str {
    match end {
        End::Open(Waiting::Request) => "open: between requests",
        End::Open(Waiting::Head) => "open: in a head",
        End::Open(Waiting::Body) => "open: in a body",
        End::Closed(CloseReason::Asked) => "closed: asked",
        End::Closed(CloseReason::Refused | CloseReason::Unauthorized) => "closed: refused",
        End::Closed(CloseReason::EndOfInput) => "closed: end of input",
        End::Closed(CloseReason::TimedOut) => "closed: timed out",
    }
}
