//! What every test stands on: the child process, an HTTP client, a ZeroMQ subscriber.

pub(crate) mod crude;
pub(crate) mod gateway;
pub(crate) mod http;
pub(crate) mod hub;
pub(crate) mod late;
pub(crate) mod net;
pub(crate) mod pipeline;
pub(crate) mod process;
pub(crate) mod request;
pub(crate) mod rig;
pub(crate) mod settings_file;
pub(crate) mod subscriber;
pub(crate) mod usage;
pub(crate) mod way;
pub(crate) mod worker;

use std::time::{Duration, Instant};

/// How long any one wait may take before the test fails. It bounds hangs and measures nothing, so
/// it is generous: a loaded machine must not make a test red.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How many milliseconds [`eventually`] rests between two looks.
const LOOK_AGAIN_MS: u64 = 10;

/// Looks again and again until `look` finds something; for what raises no event to wait for.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "never came: {what}");
        std::thread::sleep(Duration::from_millis(LOOK_AGAIN_MS));
    }
}
