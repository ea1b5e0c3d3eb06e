//! `adapter-gateway listen`: subscribes, and prints each message.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::print::Printer;
use super::serve::endpoint_to_connect;
use crate::bus::{ConnectionStatus, Endpoint, HUB_SUBSCRIBERS, Interrupter, NotConnected, Received, Subscriber};
use crate::cli::{Count, ListenArguments};
use crate::gateway::Failure;
use crate::log::{self, log, warning};
use crate::process::exit_now;

/// The time in which the printing must end after a signal.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the command.
///
/// # Errors
/// Returns the [`Failure`] that ended it.
pub fn run(arguments: ListenArguments) -> Result<(), Failure> {
    let mut urls = arguments.connect;
    if urls.is_empty() {
        urls.push(HUB_SUBSCRIBERS.into());
    }
    let endpoints = urls.iter().map(|url| endpoint_to_connect(url)).collect::<Result<Vec<_>, _>>()?;
    let mut subscriber = Subscriber::connect(&endpoints, &arguments.topic).map_err(Failure::configuration)?;
    subscriber.watch_connections(log_status);
    interrupt_on_signals(subscriber.interrupter())?;
    let count = arguments.count.map(Count::get);
    let mut printer = Printer::stdout(arguments.encoding, arguments.color, arguments.pretty);
    print_messages(&mut subscriber, &mut printer, count);
    Ok(())
}

/// Says whether messages can come from this endpoint.
fn log_status(endpoint: &Endpoint, status: &ConnectionStatus) {
    match status {
        Ok(()) => log(format_args!("connected to {endpoint}, waiting for messages")),
        Err(reason @ NotConnected::WrongSide(_)) => warning(format_args!(
            "not connected to {endpoint}: {reason}; subscribers connect to the other side, usually {HUB_SUBSCRIBERS}"
        )),
        Err(reason) => warning(format_args!("not connected to {endpoint}: {reason}; waiting until it is there")),
    }
}

/// Prints messages until it is interrupted, it has printed `count` messages, or standard output is closed.
pub(super) fn print_messages(subscriber: &mut Subscriber, printer: &mut Printer, count: Option<u64>) {
    let mut printed = 0;
    while count.is_none_or(|count| printed < count) {
        match subscriber.recv(Duration::MAX) {
            Some(Received::Message { topic, payload }) => {
                if printer.print(&topic, &payload).is_err() {
                    return;
                }
                printed += 1;
            }
            Some(Received::Malformed { frames }) => {
                warning(format_args!("ignored a message of {frames} frames, since a message has two"))
            }
            Some(Received::Interrupted) => return,
            None => {}
        }
    }
}

/// Ends the printing at the first SIGTERM or SIGINT, and the process at the second one, or after [`STOP_TIMEOUT`]: the
/// printing may wait for a reader that does not read. SIGHUP keeps its default, so that the command ends with its
/// terminal, and under nohup(1) does not.
fn interrupt_on_signals(interrupter: Interrupter) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::configuration)?;
    // The handlers are installed before the thread starts, so that no signal is missed.
    let [mut terminate, mut interrupt] = {
        let _context = runtime.enter();
        let install = |kind| signal(kind).map_err(Failure::configuration);
        [install(SignalKind::terminate())?, install(SignalKind::interrupt())?]
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            let mut stop = async || {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            };
            stop().await;
            interrupter.interrupt();
            let _ = tokio::time::timeout(STOP_TIMEOUT, stop()).await;
        });
        log::finish();
        exit_now(0);
    });
    Ok(())
}
