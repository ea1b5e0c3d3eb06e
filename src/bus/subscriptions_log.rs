//! What the log says of subscriptions.

use std::fmt::Write;

use crate::zmtp::Subscriptions;

/// The most prefixes in the log, and the most characters of each.
const LOGGED_PREFIXES: usize = 20;
const LOGGED_CHARS: usize = 64;

/// Returns a line that lists the prefixes of those who subscribe at `place`, escaped and cut.
pub(super) fn description(place: &str, subscriptions: &Subscriptions) -> String {
    let total = subscriptions.prefixes();
    let mut text = format!("subscriptions at {place}: {total}");
    for (number, prefix) in subscriptions.first(LOGGED_PREFIXES).iter().enumerate() {
        let prefix = String::from_utf8_lossy(prefix);
        let shown: String = prefix.chars().take(LOGGED_CHARS).collect();
        let cut = if shown.len() < prefix.len() { "…" } else { "" };
        let separator = if number == 0 { ": " } else { ", " };
        let _ = write!(text, "{separator}\"{}{cut}\"", shown.escape_debug());
    }
    if total > LOGGED_PREFIXES {
        let _ = write!(text, ", and {} more", total - LOGGED_PREFIXES);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscribed(prefixes: &[&str]) -> String {
        let mut subscriptions = Subscriptions::default();
        for prefix in prefixes {
            assert!(subscriptions.subscribe(0, prefix.as_bytes()).unwrap());
        }
        description("the bound endpoints", &subscriptions)
    }

    #[test]
    fn the_log_is_bounded_and_escaped() {
        let long = "é".repeat(LOGGED_CHARS + 1);
        let cut = "é".repeat(LOGGED_CHARS);
        let expected = format!(r#"subscriptions at the bound endpoints: 3: "", "a\n\u{{1b}}\"", "{cut}…""#);
        assert_eq!(subscribed(&["", "a\n\x1b\"", &long]), expected);

        let names: Vec<_> = (0..LOGGED_PREFIXES + 5).map(|number| number.to_string()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        assert!(subscribed(&names).ends_with(", and 5 more"), "{}", subscribed(&names));
        assert!(subscribed(&names[..LOGGED_PREFIXES]).ends_with(r#", "9""#));
    }
}
