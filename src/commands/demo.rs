//! `adapter-gateway demo`: everything on one machine, with no adapter.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::listen::print_messages;
use super::print::Printer;
use super::serve;
use crate::bus::{HUB_PUBLISHERS, HUB_SUBSCRIBERS, Hub, Subscriber};
use crate::cli::DemoArguments;
use crate::gateway::events::{Emit, Event};
use crate::gateway::exit::Failure;
use crate::gateway::{Source, serve};
use crate::log::log;
use crate::proto::message::Encoding;
use crate::proto::token::Token;
use crate::tls::source::CertificateSource;

/// Random bytes of a name or a token: too many to guess, few enough to read.
const RANDOM_BYTES: usize = 16;

/// What the listener's subscription gets to reach the hub, which is in the same process.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Any free port of this machine.
const ANYWHERE: &str = "tcp://127.0.0.1:*";

/// Runs the command until it is interrupted.
///
/// # Errors
/// [`Failure`].
pub fn run(arguments: &DemoArguments) -> Result<(), Failure> {
    let hub = start_hub()?;
    let subscribers_side = [hub.subscribers().clone()];
    let mut subscriber = Subscriber::connect(&subscribers_side, &[]).map_err(Failure::configuration)?;
    if !hub.wait_for_subscriber(SUBSCRIBE_TIMEOUT) {
        return Err(Failure::Configuration("the listener could not subscribe".into()));
    }
    let interrupter = subscriber.interrupter();
    let printing = std::thread::spawn(move || print_messages(&mut subscriber, &Printer::stdout(Encoding::Json), None));

    let token = random_hex()?;
    let mut config = serve::demo_config(arguments, hub.publishers())?;
    // Gone with the demo, as its certificate is.
    let directory = Scratch(std::env::temp_dir().join(format!("adapter-gateway-demo-{}", random_hex()?)));
    let mut trust = None;
    if !arguments.plain {
        let source = CertificateSource::SelfSigned { directory: directory.0.clone() };
        trust = source.trust_anchor();
        config.certificate = Some(source);
    }
    log(format_args!("publishers may connect to {}, subscribers to {}", hub.publishers(), hub.subscribers()));
    config.hub = Some(hub);
    let served = match Token::new(&token) {
        Some(secret) => serve(config, Source::Fixed(secret), welcome(token, trust)),
        None => Ok(()),
    };
    interrupter.interrupt();
    let _ = printing.join();
    served
}

/// At the usual endpoints, or at free ones where an adapter holds those.
fn start_hub() -> Result<Hub, Failure> {
    serve::start_hub(HUB_PUBLISHERS, HUB_SUBSCRIBERS).or_else(|_| serve::start_hub(ANYWHERE, ANYWHERE))
}

fn random_hex() -> Result<String, Failure> {
    let mut bytes = [0; RANDOM_BYTES];
    getrandom::fill(&mut bytes).map_err(Failure::configuration)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A directory that is removed on drop.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Tells a person what to do, once both sides are ready.
fn welcome(token: String, trust: Option<PathBuf>) -> Emit {
    #[derive(Default)]
    struct Seen {
        url: Option<String>,
        connected: bool,
    }
    let seen = Mutex::new(Seen::default());
    Arc::new(move |event: &Event<'_>| {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Listening { url, .. } => seen.url = Some((*url).into()),
            Event::Bus { state, .. } => seen.connected = *state == "connected",
            _ => return,
        }
        if let (Some(url), true) = (seen.url.as_deref(), seen.connected) {
            print_welcome(url, &token, trust.as_deref());
            seen.url = None;
        }
    })
}

fn print_welcome(url: &str, token: &str, trust: Option<&Path>) {
    use std::io::Write;
    let trust = trust.map(|path| format!(" --cacert '{}'", path.display())).unwrap_or_default();
    let message = r#"{"topic":"adapter/extensions/data","payload":{"extension_id":"demo","content":"hello"}}"#;
    let mut stdout = std::io::stdout().lock();
    // A pipe that nobody reads is no reason to stop.
    let _ = writeln!(
        stdout,
        "The gateway takes messages at {url}. Paste this into another terminal:\n\n\
         curl -sS{trust} '{url}?token={token}' -H 'Content-Type: application/json' -d '{message}'\n\n\
         Each message is printed here as a subscriber sees it: topic, tab, payload. Ctrl-C ends the demo.\n"
    )
    .and_then(|()| stdout.flush());
}
