//! `adapter-gateway listen`: subscribes, and prints each message.

use std::time::Duration;

use super::print::Printer;
use super::serve::endpoint_to_connect;
use crate::bus::{HUB_SUBSCRIBERS, Interrupter, Received, Subscriber};
use crate::cli::{Count, ListenArguments};
use crate::gateway::Failure;
use crate::gateway::signals::Signals;
use crate::log::log;
use crate::process::exit_now;

/// The exit status after a signal to stop.
const STOPPED_AS_ASKED: u8 = 0;

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
    interrupt_on_signals(subscriber.interrupter())?;
    let count = arguments.count.map(Count::get);
    print_messages(&mut subscriber, &Printer::stdout(arguments.encoding), count);
    // The process ends next. To close the socket could mean to wait for a name server.
    std::mem::forget(subscriber);
    Ok(())
}

/// Prints messages until it is interrupted, it has printed `count` messages, or standard output is closed.
pub(super) fn print_messages(subscriber: &mut Subscriber, printer: &Printer, count: Option<u64>) {
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
                log(format_args!("ignored a message of {frames} frames, since a message has two"))
            }
            Some(Received::Interrupted) => return,
            None => {}
        }
    }
}

/// Ends the current or the next [`Subscriber::recv`] at the first signal to stop. The second one ends the process, which
/// may still be printing to a standard output that nobody reads.
fn interrupt_on_signals(interrupter: Interrupter) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::configuration)?;
    // The handlers are installed before the thread starts, so that no signal is missed.
    let mut signals = {
        let _context = runtime.enter();
        Signals::install().map_err(Failure::configuration)?
    };
    std::thread::spawn(move || {
        runtime.block_on(signals.stop());
        interrupter.interrupt();
        runtime.block_on(signals.stop());
        exit_now(STOPPED_AS_ASKED);
    });
    Ok(())
}
