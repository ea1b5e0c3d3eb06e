//! Tries again, for a bounded time, what another process prevents.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Calls `attempt` until it succeeds, fails for a reason that `is_temporary` does not accept, or has failed once `patience`
/// has passed. Pauses between the attempts. Returns the last result.
pub(crate) fn retry_until<T, E>(
    patience: Duration,
    pause: Duration,
    mut attempt: impl FnMut() -> Result<T, E>,
    is_temporary: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let deadline = Instant::now() + patience;
    loop {
        match attempt() {
            Err(error) if is_temporary(&error) && Instant::now() < deadline => sleep(pause),
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_temporary_failure_is_tried_again_and_only_until_the_deadline() {
        for (patience, results, expected) in [
            (Duration::from_secs(3_600), vec![Ok(1)], Ok(1)),
            (Duration::from_secs(3_600), vec![Err("temporary"), Err("temporary"), Ok(3)], Ok(3)),
            (Duration::from_secs(3_600), vec![Err("temporary"), Err("final")], Err("final")),
            (Duration::ZERO, vec![Err("temporary")], Err("temporary")),
        ] {
            let mut left = results.iter();
            let last = retry_until(patience, Duration::ZERO, || *left.next().unwrap(), |error| *error == "temporary");
            assert_eq!((last, left.next()), (expected, None));
        }
    }
}
