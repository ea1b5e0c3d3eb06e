//! `adapter-gateway demo`: a hub, a gateway with a fresh token and a listener on one machine, without an adapter.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::listen::{STOP_TIMEOUT, print_messages};
use super::print::Printer;
use super::serve;
use crate::bus::{HUB_PUBLISHERS, HUB_SUBSCRIBERS, Hub, Interrupter, Subscriber};
use crate::cli::{Colour, DemoArguments};
use crate::gateway::events::{Event, EventSink};
use crate::gateway::{self, Failure, TokenSource};
use crate::log::log;
use crate::proto::message::Encoding;
use crate::proto::token::Token;
use crate::settings;
use crate::tls::source::CertificateSource;

/// The time that the listener's subscription gets to reach the hub, which is in the same process.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Any free port of this machine.
const ANY_FREE_PORT: &str = "tcp://127.0.0.1:*";

/// Runs the command until it is interrupted, or its terminal is closed.
///
/// # Errors
/// Returns the [`Failure`] that ended it.
pub fn run(arguments: &DemoArguments) -> Result<(), Failure> {
    let token = random_hex()?;
    let mut config = serve::demo_config(arguments)?;
    let directory = TemporaryDirectory(std::env::temp_dir().join(format!("adapter-gateway-demo-{}", random_hex()?)));
    let mut ca_file = None;
    if !arguments.plain {
        let source = CertificateSource::SelfSigned { directory: directory.0.clone() };
        ca_file = source.trust_anchor();
        config.certificate = Some(source);
    }
    let mut printing = None;
    let start_hub = || {
        let hub = start_hub()?;
        log(format_args!("publishers may connect to {}, subscribers to {}", hub.publishers(), hub.subscribers()));
        printing = Some(PrintingThread::start(&hub)?);
        Ok(hub)
    };
    let result = match Token::new(&token) {
        Some(secret) => {
            gateway::run(config, Some(start_hub), &TokenSource::Fixed(secret), welcome_when_ready(token, ca_file))
        }
        None => Ok(()),
    };
    if let Some(printing) = printing {
        printing.stop();
    }
    result
}

/// Starts the hub at the usual endpoints, or on free ports if those are taken, for example by an adapter.
fn start_hub() -> Result<Hub, Failure> {
    let start = |publishers, subscribers| {
        serve::start_hub(&[serve::endpoint_to_bind(publishers)?, serve::endpoint_to_bind(subscribers)?])
    };
    start(HUB_PUBLISHERS, HUB_SUBSCRIBERS).or_else(|_| start(ANY_FREE_PORT, ANY_FREE_PORT))
}

/// The thread that prints each message as a subscriber sees it.
struct PrintingThread {
    interrupter: Interrupter,
    /// Disconnected when the thread has printed its last message.
    ended: Receiver<()>,
}

impl PrintingThread {
    /// Starts the thread when its subscription has reached the hub.
    fn start(hub: &Hub) -> Result<Self, Failure> {
        let mut subscriber = Subscriber::connect(&[hub.subscribers().clone()], &[]).map_err(Failure::configuration)?;
        if !hub.wait_for_subscriber(SUBSCRIBE_TIMEOUT) {
            return Err(Failure::Configuration("the listener could not subscribe to the embedded hub".into()));
        }
        let interrupter = subscriber.interrupter();
        let (printing, ended) = channel();
        std::thread::spawn(move || {
            let _printing_until_the_end: Sender<()> = printing;
            print_messages(&mut subscriber, &mut Printer::stdout(Encoding::Json, Colour::Auto, false), None);
        });
        Ok(Self { interrupter, ended })
    }

    /// Lets the thread print what has arrived, for a bounded time: nobody may read standard output.
    fn stop(self) {
        self.interrupter.interrupt();
        let _ = self.ended.recv_timeout(STOP_TIMEOUT);
    }
}

fn random_hex() -> Result<String, Failure> {
    settings::random_hex().map_err(Failure::configuration)
}

/// A directory that is removed on drop.
struct TemporaryDirectory(PathBuf);

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns a sink that prints the welcome once a message that is posted is taken.
fn welcome_when_ready(token: String, ca_file: Option<PathBuf>) -> EventSink {
    let url = Mutex::new(None);
    Arc::new(move |event: &Event<'_>| {
        let mut listening = url.lock().unwrap_or_else(PoisonError::into_inner);
        if let Event::Listening { url, .. } = event {
            *listening = Some(String::from(*url));
        }
        if matches!(event, Event::Ready)
            && let Some(url) = listening.take()
        {
            let (token, ca_file) = (token.clone(), ca_file.clone());
            // The thread that reports the event must not wait for a reader of standard output.
            std::thread::spawn(move || print_welcome(&url, &token, ca_file.as_deref()));
        }
    })
}

fn print_welcome(url: &str, token: &str, ca_file: Option<&Path>) {
    use std::io::Write;
    let cacert = ca_file.map(|path| format!(" --cacert '{}'", path.display())).unwrap_or_default();
    let message = r#"{"topic":"adapter/extensions/data","payload":{"extension_id":"demo","content":"hello"}}"#;
    let mut stdout = std::io::stdout().lock();
    // The demo goes on after the reader has closed the pipe.
    let _ = writeln!(
        stdout,
        "The gateway takes messages at {url}. Paste this into another terminal:\n\n\
         curl -sS{cacert} '{url}?token={token}' -H 'Content-Type: application/json' -d '{message}'\n\n\
         Each message is printed here as a subscriber sees it: topic, tab, payload. Ctrl-C ends the demo.\n"
    )
    .and_then(|()| stdout.flush());
}
