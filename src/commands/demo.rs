//! `adapter-gateway demo`: a hub, a gateway with a fresh token and a subscriber on one machine, without an adapter.

use std::fs::DirBuilder;
use std::io;
use std::iter;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf, absolute};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::listen::{STOP_TIMEOUT, print_messages};
use super::print::Printer;
use super::serve;
use crate::bus::{Bus, Interrupter, Subscriber};
use crate::cli::{Colour, DemoArguments};
use crate::gateway::events::{Event, EventSink};
use crate::gateway::{self, Failure, TokenSource};
use crate::message::{Encoding, topics};
use crate::sys::advice::path_option;
use crate::sys::draft::PRIVATE_DIRECTORY_MODE;
use crate::sys::log::warning;
use crate::sys::retry::{PAUSE, retry_until};
use crate::sys::writer::write_all;
use crate::sys::{lock, on_joined_thread, on_thread, random_hex};
use crate::terms::token::Token;
use crate::tls::source::CertificateSource;

/// The time that the subscription gets to reach the hub, which is in the same process.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs the command until it is interrupted, or its terminal is closed.
pub fn run(arguments: &DemoArguments) -> Result<(), Failure> {
    let token = random_hex().map_err(Failure::configuration)?;
    let source = Token::new(&token).map(TokenSource::Fixed).ok_or_else(|| Failure::configuration("no token"))?;
    let mut config = serve::demo_config(arguments)?;
    let name = format!("adapter-gateway-demo-{}", random_hex().map_err(Failure::configuration)?);
    let directory = std::env::temp_dir().join(name);
    let mut ca_file = None;
    let addresses = config.tcp_addresses();
    if !arguments.plain && !addresses.is_empty() {
        DirBuilder::new().mode(PRIVATE_DIRECTORY_MODE).create(&directory).map_err(|error| {
            Failure::configuration(format_args!("{}: {error}; TMPDIR names another place", directory.display()))
        })?;
        // Clients connect to these addresses. A certificate cannot name an unspecified one.
        let names = addresses.iter().filter_map(|address| address.ip().to_string().parse().ok()).collect();
        let certificate = CertificateSource::SelfSigned { directory: directory.clone(), names };
        ca_file = certificate.trust_anchor();
        config.certificate = Some(certificate);
    }
    let mut printing = None;
    let on_bus = |bus: &Bus| {
        printing = Some(start_printing(bus)?);
        Ok(())
    };
    let result = gateway::run(config, on_bus, source, &welcome_when_ready(token, ca_file));
    if let Some((interrupter, thread)) = printing {
        // The thread prints what has arrived, for a bounded time: nobody may read standard output.
        interrupter.interrupt();
        let _ = thread.recv_timeout(STOP_TIMEOUT);
    }
    // It is there if a certificate was made.
    let _ = std::fs::remove_dir_all(directory);
    result
}

/// Starts a thread that prints each message as a subscriber sees it, when its subscription has reached the hub.
fn start_printing(bus: &Bus) -> Result<(Interrupter, Receiver<()>), Failure> {
    // The hub alone is bound, the side of publishers first.
    let (_, subscribers) = bus.bound().split_at(1);
    // Everything, and the known topics by their names: the log tells of a topic that nobody asks for.
    let topics: Vec<String> = iter::once("").chain(topics::known()).map(str::to_owned).collect();
    let mut subscriber = Subscriber::connect(subscribers, &topics, |_, _| {}).map_err(Failure::configuration)?;
    let subscriptions = || bus.counters().subscribers.subscriptions.filter(|number| *number > 0).ok_or(());
    retry_until(SUBSCRIBE_TIMEOUT, PAUSE, subscriptions, |()| true)
        .map_err(|()| Failure::configuration("the listener could not subscribe to the embedded hub"))?;
    let interrupter = subscriber.interrupter();
    let thread = on_joined_thread("print", move || {
        let mut printer = Printer::stdout(Encoding::Json, Colour::Auto, false);
        let (_, written) = print_messages(&mut subscriber, &mut printer, None, None);
        Failure::of_output(written).unwrap_or_else(|failure| warning(format_args!("{failure}")));
    });
    Ok((interrupter, thread.map_err(Failure::configuration)?))
}

/// Returns a sink that prints the welcome once a message that is posted is taken.
fn welcome_when_ready(token: String, ca_file: Option<PathBuf>) -> EventSink {
    let pending = Mutex::new(None);
    Arc::new(move |event: &Event<'_>| {
        let mut pending = lock(&pending);
        if let Event::Listening { url, socket, .. } = event {
            *pending = Some(welcome(url, *socket, &token, ca_file.as_deref()));
        }
        if matches!(event, Event::Ready)
            && let Some(welcome) = pending.take()
        {
            // The thread that reports the event waits for no reader of standard output. The demo outlives that reader.
            let print = move || write_all(&io::stdout(), welcome.as_bytes());
            if let Err(error) = on_thread("welcome", print) {
                warning(format_args!("cannot start a thread that prints how to post a message: {error}"));
            }
        }
    })
}

/// Returns the text that is printed once the gateway is ready, for a terminal in any directory.
fn welcome(url: &str, socket: Option<&Path>, token: &str, ca_file: Option<&Path>) -> String {
    // An unspecified address stands for each address of the host, and clients cannot connect to it everywhere.
    let url = url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
    let place = socket.map(|path| format!(" on {}", absolute(path).unwrap_or_else(|_| path.into()).display()));
    let place = place.unwrap_or_default();
    let options = [("--unix-socket", socket), ("--cacert", ca_file)];
    let options = options.map(|(name, path)| path.map(|path| path_option(name, path)).unwrap_or_default()).concat();
    let message = r#"{"topic":"adapter/extensions/data","payload":{"extension_id":"demo","content":"hello"}}"#;
    format!(
        "The gateway takes messages at {url}{place}. Paste this into another terminal:\n\n\
         curl -sS{options} '{url}?token={token}' -H 'Content-Type: application/json' -d '{message}'\n\n\
         Each message is printed here as a subscriber sees it: topic, tab, payload. Ctrl-C ends the demo.\n\n"
    )
}
