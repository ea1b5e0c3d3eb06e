//! Logs requests without the right token: the first one, and then once a minute how many more there were.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::sys::log::warning;

/// The least time between two lines.
const INTERVAL: Duration = Duration::from_secs(60);

/// What the log has said of the answers 401.
pub(super) struct RefusedTokens {
    /// Notified at each such answer.
    refused: Arc<Notify>,
    /// How many of them the log has told of.
    logged: u64,
    /// When the next line may follow; `None` if the last interval had none.
    next_at: Option<Instant>,
}

impl RefusedTokens {
    pub(super) fn new(refused: Arc<Notify>) -> Self {
        Self { refused, logged: 0, next_at: None }
    }

    /// Waits until a line may be due. Cancel-safe.
    pub(super) async fn due(&self) {
        match self.next_at {
            Some(at) => sleep_until(at).await,
            None => self.refused.notified().await,
        }
    }

    /// Logs a line if it is due. `answers` is the number of answers 401 so far.
    pub(super) fn log(&mut self, answers: u64) {
        if let Some(line) = self.line(answers, Instant::now()) {
            warning(format_args!("{line}"));
        }
    }

    fn line(&mut self, answers: u64, now: Instant) -> Option<String> {
        let count = answers.saturating_sub(self.logged);
        // The notice of an answer that was logged before may come late.
        let is_first = self.next_at.is_none();
        self.logged = answers;
        self.next_at = (count > 0).then(|| now + INTERVAL);
        match (count, is_first) {
            (0, _) => None,
            (1, true) => Some("a request without the right token was answered 401".into()),
            (_, true) => Some(format!("{count} requests without the right token were answered 401")),
            (_, false) => Some(format!(
                "{count} more requests without the right token were answered 401 in the last {} s",
                INTERVAL.as_secs()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_is_logged_and_then_their_number_once_a_minute() {
        let refused = Arc::new(Notify::new());
        let mut tokens = RefusedTokens::new(Arc::clone(&refused));
        let start = Instant::now();
        let line = |tokens: &mut RefusedTokens, answers, minute| tokens.line(answers, start + minute * INTERVAL);
        refused.notify_one();
        tokens.due().await;
        assert_eq!(line(&mut tokens, 1, 0).unwrap(), "a request without the right token was answered 401");
        assert_eq!(tokens.next_at, Some(start + INTERVAL));
        let more = "1150000 more requests without the right token were answered 401 in the last 60 s";
        assert_eq!(line(&mut tokens, 1_150_001, 1).unwrap(), more);
        assert_eq!(line(&mut tokens, 1_150_001, 2), None, "there were none");
        assert_eq!(line(&mut tokens, 1_150_001, 3), None, "a notice came late");
        assert_eq!(line(&mut tokens, 1_150_003, 4).unwrap(), "2 requests without the right token were answered 401");
    }
}
