//! What SIGTERM and SIGINT do to a command that has something to say at its end.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::gateway::Failure;
use crate::sys::process::exit_now;
use crate::sys::{event_loop, log, on_thread};

/// Calls `interrupt` at the first SIGTERM or SIGINT. At the second one, or after `patience`, the process ends with
/// `late_status`: what is interrupted may wait for somebody else. SIGHUP keeps its default, so that the command ends with
/// its terminal, and under nohup(1) does not.
pub(super) fn on_signals(
    interrupt: impl FnOnce() + Send + 'static,
    patience: Duration,
    late_status: u8,
) -> Result<(), Failure> {
    let runtime = event_loop().map_err(Failure::configuration)?;
    // The handlers are installed before the thread starts, so that no signal is missed.
    let install = async || io::Result::Ok((signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?));
    let (mut terminate, mut interrupted) = runtime.block_on(install()).map_err(Failure::configuration)?;
    let stop = move || {
        runtime.block_on(async {
            let mut stop = async || {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupted.recv() => {}
                }
            };
            stop().await;
            interrupt();
            let _ = tokio::time::timeout(patience, stop()).await;
        });
        log::finish();
        exit_now(late_status);
    };
    on_thread("signals", stop).map(drop).map_err(Failure::cannot("start a thread"))
}
