//! What the core counts of one worker's requests.

use crate::http::problem::Status;
use crate::message::publish::Unavailable;
use crate::sync::counting::{Tally, TallyOf, counters};

counters! {
    /// What became of requests.
    pub struct RequestCounters => RequestTotals {
        /// Answers by status code.
        answers: TallyOf<Status>,
        /// Answers 503 by reason, as in the problem's type.
        refused: TallyOf<Unavailable>,
    }
}

counters! {
    /// What was found in messages.
    pub struct MessageCounters => MessageTotals {
        /// Messages whose topic is not known, published or refused for it.
        unknown_topics: Tally,
    }
}

counters! {
    /// What the core counts for one worker, alone on its lines of cache. The alignment is two lines of 64 bytes, since the
    /// prefetcher of x86 fetches lines in pairs. A new counter belongs into the struct of those that it is to stand beside in
    /// the `stats` event.
    #[repr(align(128))]
    pub struct HttpCounters => HttpTotals {
        /// What became of requests.
        requests: RequestCounters,
        /// What was found in messages.
        messages: MessageCounters,
    }
}
