//! Times in UTC as RFC 3339 §5.6 has them.

use std::time::SystemTime;

use time::OffsetDateTime;

/// Returns the time to the millisecond.
pub(super) fn rfc3339(time: SystemTime) -> String {
    let millisecond = OffsetDateTime::from(time).millisecond();
    format!("{}.{millisecond:03}Z", date_time(time))
}

/// Returns the time to the second, without the `Z` that ends it.
pub(crate) fn date_time(time: SystemTime) -> String {
    let time = OffsetDateTime::from(time);
    format!("{}T{:02}:{:02}:{:02}", time.date(), time.hour(), time.minute(), time.second())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_time_is_in_utc_to_the_millisecond() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(951_782_399_007);
        assert_eq!(rfc3339(time), "2000-02-28T23:59:59.007Z");
        assert_eq!(date_time(SystemTime::UNIX_EPOCH), "1970-01-01T00:00:00");
    }
}
