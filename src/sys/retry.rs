//! Tries again, for a bounded time, what another process prevents.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;

/// How long to wait for the lock of a directory. Another gateway holds it for some 100 ms at most, but anybody who may
/// open the directory may hold it for ever.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The pause before the next attempt.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);

/// Calls `attempt` until it succeeds, fails for a reason that `is_temporary` does not accept, or has failed once
/// `patience` has passed. Returns the last result.
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

/// Locks a directory against other gateways until the descriptor is closed.
pub(crate) fn lock_directory(path: &Path) -> io::Result<OwnedFd> {
    let directory = open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let lock = || flock(&directory, FlockOperation::NonBlockingLockExclusive);
    match retry_until(LOCK_TIMEOUT, PAUSE, lock, |error| *error == Errno::WOULDBLOCK) {
        Err(Errno::WOULDBLOCK) => Err(io::Error::new(io::ErrorKind::WouldBlock, "another process holds it")),
        locked => Ok(locked.map(|()| directory)?),
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
