//! How the threads that own sockets wait.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Longest wait for room in a full pipe. Room is announced on the socket's descriptor, except when
/// the very attempt to send consumed the announcement together with other commands.
pub(super) const FULL_RECHECK: Duration = Duration::from_millis(100);

/// Waits until one of `fds` is readable, or until `until`; for ever without. `false` when it was the
/// time. A bell among them goes on ringing until it is hushed.
///
/// The sockets' descriptors are edge-triggered: they tell of what came after the socket was last
/// found to have nothing.
pub(super) fn wait(fds: &[RawFd], until: Option<Instant>) -> bool {
    let timeout_ms = match until {
        Some(at) => ceil_ms(at.saturating_duration_since(Instant::now())),
        None => -1,
    };
    let item = |fd: &RawFd| zmq::PollItem::from_fd(*fd, zmq::POLLIN);
    let mut items: Vec<_> = fds.iter().map(item).collect();
    // An interrupted wait is as good as one that ended: the caller looks at everything.
    zmq::poll(&mut items, timeout_ms) != Ok(0)
}

/// What is left until `deadline`, in ms: nothing when there is none.
pub(super) fn left_ms(deadline: Option<&Instant>) -> i32 {
    let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
    left.unwrap_or_default().as_millis().try_into().unwrap_or(i32::MAX)
}

/// In ms, rounded up: a wait that ends too early would only be repeated.
fn ceil_ms(wait: Duration) -> i64 {
    wait.as_micros().div_ceil(1_000).try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::bell::Bell;
    use super::*;

    #[test]
    fn a_wait_ends_by_the_bell_or_by_the_time() {
        let bell = Bell::new().unwrap();
        let soon = || Some(Instant::now() + Duration::from_millis(1));
        bell.strike();
        assert!(wait(&[bell.raw_fd()], None));
        assert!(bell.hush());
        assert!(!wait(&[bell.raw_fd()], soon()));
    }

    #[test]
    fn waits_are_rounded_up_and_what_is_left_down() {
        assert_eq!(ceil_ms(Duration::from_micros(1_001)), 2);
        assert_eq!(ceil_ms(Duration::ZERO), 0);
        assert_eq!(left_ms(None), 0);
        assert_eq!(left_ms(Some(&Instant::now())), 0);
    }
}
