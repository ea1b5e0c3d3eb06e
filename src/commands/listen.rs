//! `adapter-gateway listen`: subscribes, and prints each message.

use std::io;
use std::time::{Duration, Instant};

use super::interrupt::on_signals;
use super::print::Printer;
use super::serve::{endpoint_to_connect, refuse_repeated_endpoints};
use crate::bus::{BusConfig, Endpoint, HUB_SUBSCRIBERS, LinkStatus, NotConnected, Received, Subscriber};
use crate::cli::ListenArguments;
use crate::gateway::Failure;
use crate::sys::log::{LineLimit, log, warning};
use crate::zmtp::PeerFault;

pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the command. It fails also if not all messages that were asked for came.
pub fn run(arguments: ListenArguments) -> Result<(), Failure> {
    let until = arguments.timeout.map(|timeout| Instant::now() + timeout);
    let mut urls = arguments.connect;
    if urls.is_empty() {
        urls.push(HUB_SUBSCRIBERS.into());
    }
    let endpoints = urls.iter().map(|url| endpoint_to_connect(url)).collect::<Result<Vec<_>, _>>()?;
    refuse_repeated_endpoints(&BusConfig { connect: endpoints.clone(), ..BusConfig::default() })?;
    let connected = Subscriber::connect(&endpoints, &arguments.topic, log_connection);
    let mut subscriber = connected.map_err(Failure::configuration)?;
    let count = arguments.count.or(arguments.timeout.map(|_| 1));
    let interrupter = subscriber.interrupter();
    let late_status = if count.is_some() { Failure::INCOMPLETE } else { 0 };
    // The printing may wait for a reader that does not read.
    on_signals(move || interrupter.interrupt(), STOP_TIMEOUT, late_status)?;
    let mut printer = Printer::stdout(arguments.encoding, arguments.color, arguments.pretty);
    let (printed, written) = print_messages(&mut subscriber, &mut printer, count, until);
    Failure::of_output(written)?;
    let Some(count) = count.filter(|count| printed < *count) else { return Ok(()) };
    let within = match arguments.timeout.filter(|_| until.is_some_and(|until| Instant::now() >= until)) {
        Some(timeout) => format!("came within {} s", timeout.as_secs_f64()),
        None => "were printed".into(),
    };
    Err(Failure::new(Failure::INCOMPLETE, format_args!("{printed} of {count} messages {within}")))
}

/// Logs whether messages can come from an endpoint.
fn log_connection(endpoint: &Endpoint, status: &LinkStatus) {
    match status {
        Ok(()) => log(format_args!("connected to {endpoint}, waiting for messages")),
        Err(reason @ NotConnected::Unfit(PeerFault::SocketType(_))) => warning(format_args!(
            "not connected to {endpoint}: {reason}; subscribers connect to the other side, usually {HUB_SUBSCRIBERS}"
        )),
        Err(reason) => warning(format_args!("not connected to {endpoint}: {reason}; waiting until it is there")),
    }
}

/// Prints messages until it is interrupted, it has printed `count` messages, standard output is closed, or the time is
/// over. Returns the number of printed messages, and the error of standard output.
pub(super) fn print_messages(
    subscriber: &mut Subscriber,
    printer: &mut Printer,
    count: Option<u64>,
    until: Option<Instant>,
) -> (u64, io::Result<()>) {
    let (mut printed, mut malformed) = (0, LineLimit::new());
    while count.is_none_or(|count| printed < count) {
        match subscriber.recv(until) {
            Some(Received::Message { topic, payload }) => {
                if let Err(error) = printer.print(&topic, &payload) {
                    return (printed, Err(error));
                }
                printed += 1;
            }
            Some(Received::Malformed { frames }) => match malformed.count(Instant::now()) {
                None => {}
                Some(1) => warning(format_args!("ignored a message of {frames} frames, since a message has two")),
                Some(count) => warning(format_args!(
                    "ignored {count} more messages that have not two frames; the last one has {frames}"
                )),
            },
            None => break,
        }
    }
    (printed, Ok(()))
}
