//! `adapter-gateway demo`: a hub, a gateway with a fresh token and a listener on one machine, without an adapter.

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::iter;
use std::os::unix::fs::DirBuilderExt;
use std::path::{self, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::listen::{STOP_TIMEOUT, print_messages};
use super::print::Printer;
use super::serve;
use super::subscriber::{Interrupter, Subscriber};
use crate::bus::Bus;
use crate::cli::{Colour, DemoArguments};
use crate::gateway::events::{Event, EventSink};
use crate::gateway::{self, Failure, TokenSource};
use crate::message::{Encoding, topics};
use crate::settings::random_hex;
use crate::sys::draft::PRIVATE_DIRECTORY_MODE;
use crate::sys::log::warning;
use crate::sys::timed_join::TimedJoinHandle;
use crate::terms::token::Token;
use crate::tls::source::CertificateSource;

/// The time that the listener's subscription gets to reach the hub, which is in the same process.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs the command until it is interrupted, or its terminal is closed.
pub fn run(arguments: &DemoArguments) -> Result<(), Failure> {
    let token = random_hex().map_err(Failure::configuration)?;
    let source = Token::new(&token).map(TokenSource::Fixed).ok_or_else(|| Failure::configuration("no token"))?;
    let mut config = serve::demo_config(arguments)?;
    let name = format!("adapter-gateway-demo-{}", random_hex().map_err(Failure::configuration)?);
    let directory = std::env::temp_dir().join(name);
    let mut ca_file = None;
    if !arguments.plain && config.has_tcp() {
        let made = DirBuilder::new().mode(PRIVATE_DIRECTORY_MODE).create(&directory);
        let refused = |error: io::Error| format!("{}: {error}; TMPDIR names another place", directory.display());
        made.map_err(|error| Failure::configuration(refused(error)))?;
        let certificate = CertificateSource::SelfSigned { directory: directory.clone(), names: Vec::new() };
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
        thread.join_until(Instant::now() + STOP_TIMEOUT);
    }
    // It is there if a certificate was made.
    let _ = std::fs::remove_dir_all(directory);
    result
}

/// Starts a thread that prints each message as a subscriber sees it, when its subscription has reached the hub.
fn start_printing(bus: &Bus) -> Result<(Interrupter, TimedJoinHandle), Failure> {
    // The subscribers' side of the hub is bound last.
    let subscribers = bus.bound().last().map(std::slice::from_ref).unwrap_or_default();
    // Everything, and the known topics by their names: the log tells of a topic that nobody asks for.
    let topics: Vec<String> = iter::once("").chain(topics::known()).map(str::to_owned).collect();
    let mut subscriber = Subscriber::connect(subscribers, &topics).map_err(Failure::configuration)?;
    if !bus.wait_for_subscriber(SUBSCRIBE_TIMEOUT) {
        return Err(Failure::configuration("the listener could not subscribe to the embedded hub"));
    }
    let interrupter = subscriber.interrupter();
    let thread = TimedJoinHandle::spawn("print", move || {
        let mut printer = Printer::stdout(Encoding::Json, Colour::Auto, false);
        let (_, written) = print_messages(&mut subscriber, &mut printer, None, None);
        Failure::of_output(written).unwrap_or_else(|failure| warning(format_args!("{failure}")));
    });
    Ok((interrupter, thread.map_err(Failure::configuration)?))
}

/// Returns a sink that prints the welcome once a message that is posted is taken.
fn welcome_when_ready(token: String, ca_file: Option<PathBuf>) -> EventSink {
    let listening = Mutex::new(None);
    Arc::new(move |event: &Event<'_>| {
        let mut listening = listening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Event::Listening { url, socket, .. } = event {
            let socket = socket.map(|socket| path::absolute(socket).unwrap_or_else(|_| socket.into()));
            *listening = Some((String::from(*url), socket));
        }
        if matches!(event, Event::Ready)
            && let Some((url, socket)) = listening.take()
        {
            let welcome = welcome(&url, socket, &token, ca_file.clone());
            // The thread that reports the event must not wait for a reader of standard output.
            let print = move || {
                let mut stdout = std::io::stdout().lock();
                // The demo goes on after the reader has closed the pipe.
                let _ = writeln!(stdout, "{welcome}").and_then(|()| stdout.flush());
            };
            if let Err(error) = std::thread::Builder::new().name("welcome".into()).spawn(print) {
                warning(format_args!("cannot start a thread that prints how to post a message: {error}"));
            }
        }
    })
}

/// Returns the text that is printed once the gateway listens. The paths are absolute: another terminal may be in
/// another directory.
fn welcome(url: &str, socket: Option<PathBuf>, token: &str, ca_file: Option<PathBuf>) -> String {
    let option = |name, path: PathBuf| format!(" {name} {}", quoted(&path.display().to_string()));
    let place = socket.as_ref().map(|path| format!(" on {}", path.display())).unwrap_or_default();
    let options = [socket.map(|path| option("--unix-socket", path)), ca_file.map(|path| option("--cacert", path))];
    let options = options.map(Option::unwrap_or_default).concat();
    let message = r#"{"topic":"adapter/extensions/data","payload":{"extension_id":"demo","content":"hello"}}"#;
    format!(
        "The gateway takes messages at {url}{place}. Paste this into another terminal:\n\n\
         curl -sS{options} '{url}?token={token}' -H 'Content-Type: application/json' -d '{message}'\n\n\
         Each message is printed here as a subscriber sees it: topic, tab, payload. Ctrl-C ends the demo.\n"
    )
}

/// Returns a word as a shell reads it.
pub(super) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
