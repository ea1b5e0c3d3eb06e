//! One measurement of one server.

use std::fmt;
use std::io::Seek;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use adapter_gateway::terms::limits::Limits;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ALL_VERSIONS, ClientConfig};
use serde::Deserialize;
use socket2::SockAddr;

use crate::bus::{ARRIVAL_TIMEOUT, Publishers, Subscriber};
use crate::load::{Load, Outcome, Request, TOPIC};
use crate::servers::{Cpu, Programs, Server, Via, cpu_of, run_on};
use crate::support::net::dead_endpoint;
use crate::support::process::Process;
use crate::support::tls::trusting;
use crate::support::usage::resident_kib;

/// How far ahead of the subscriber a closed loop may be: half of what the queue of the gateway holds. Where other
/// programs keep the subscriber from its core for a moment, the queue would be full otherwise, and the answer 503.
const AHEAD_MESSAGES: u64 = Limits::DEFAULT.queue_messages.get() as u64 / 2;
const AHEAD_BYTES: usize = Limits::DEFAULT.buffered_bytes / 2;
/// How long a single message may take to arrive, on a machine that does other work too.
const ARRIVAL_PAUSE: Duration = Duration::from_millis(200);
/// How long a load runs before it is measured. What a server allocates only once, it has allocated then.
const WARM_UP: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Metric {
    /// The processor time of all threads of the server, in user space and in the kernel.
    CpuPerRequest,
    /// The processor time of all threads of the server but the workers.
    BusPerMessage,
    CpuPerMegabyte,
    Requests,
    /// The time from the sending of a request until the subscriber receives the message.
    PublishP50,
    PublishP99,
    /// The time from the sending of a request to its answer.
    HttpP50,
    HttpP99,
    /// The growth of the resident memory for each connection.
    IdleBytes,
    /// The time from the start of the process until it prints that it listens.
    Start,
    /// The resident memory when it listens.
    Rss,
}

impl Metric {
    /// Returns a value of this metric such that more is worse.
    pub(crate) fn cost(self, value: f64) -> f64 {
        if self == Self::Requests { value.recip() } else { value }
    }
}

impl fmt::Display for Metric {
    /// Writes the name with the unit at its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CpuPerRequest => "CPU a request, µs",
            Self::BusPerMessage => "CPU of the bus a message, µs",
            Self::CpuPerMegabyte => "CPU a megabyte, ms",
            Self::Requests => "requests a second",
            Self::PublishP50 => "publish delay p50, µs",
            Self::PublishP99 => "publish delay p99, µs",
            Self::HttpP50 => "HTTP p50, µs",
            Self::HttpP99 => "HTTP p99, µs",
            Self::IdleBytes => "RSS a connection, bytes",
            Self::Start => "start, ms",
            Self::Rss => "RSS, MB",
        })
    }
}

/// What the clients of a server do.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
pub(crate) enum Scenario {
    /// Each connection sends a pipeline of requests, and the next one when all are answered.
    Closed { connections: usize, pipelined: usize, body_bytes: usize },
    /// One connection sends a request when the last one is answered. Delays are measured.
    OneByOne,
    /// 64 connections send requests at half of the rate that this server reaches. Delays are measured.
    HalfLoad { of: Server },
    /// Each client opens a connection, sends a request, reads the answer and closes the connection, again and again. In
    /// TLS, a connection begins with a full handshake, or resumes the session of the last one.
    ConnectionEach { clients: u32, resumed: bool },
    /// ZeroMQ publishers send messages through the gateway's own hub.
    Publish { publishers: usize },
    /// `adapter-gateway send` posts lines from a file.
    SendCommand,
    /// Connections send one request each and are idle then.
    Idle { connections: usize },
    /// The server starts, and nothing is sent.
    Start,
}

pub(crate) type Figures = Vec<(Metric, f64)>;

pub(crate) struct Bench {
    pub(crate) programs: Programs,
    /// The core of the servers and that of the load.
    pub(crate) cores: [usize; 2],
    pub(crate) start: Instant,
    pub(crate) subscriber: Subscriber,
    pub(crate) duration: Duration,
}

pub(crate) const SMALL_BYTES: usize = 110;

/// The lines that `send` posts in one measurement, which takes about a second.
const SEND_LINES: u64 = 400_000;
pub(crate) const CONNECTIONS: usize = 64;

pub(crate) struct RunningServer {
    pub(crate) server: Server,
    process: Process,
    address: SockAddr,
    /// The time from its start until it printed that it listens.
    start: Duration,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    /// The subscriber that connects to the server, where the server does not connect to [`Bench::subscriber`].
    pub(crate) own_subscriber: Option<Subscriber>,
    /// Where publishers connect to the server's own hub.
    pub(crate) publishers: String,
    pub(crate) topic: String,
}

impl Bench {
    /// Starts a server on its core or on both, and waits until it listens and, if it reports that, until it is ready. With
    /// TLS, the clients trust its authority.
    pub(crate) fn start(&self, server: Server, via: Via, both_cores: bool) -> RunningServer {
        let [free, publishers] = [dead_endpoint(), dead_endpoint()];
        // The subscribers that connect to the server, and the bytes of their longest prefix.
        let (subscribers, prefixes) = match via {
            Via::Bind { subscribers, prefixes } => (subscribers, prefixes),
            Via::Hub => (1, 0),
            Via::Tcp | Via::Tls | Via::Unix => (0, 0),
        };
        let hub = if subscribers == 0 { &self.subscriber.endpoint } else { &free };
        let mut command = self.programs.command(server, via, hub, &publishers);
        let begun = Instant::now();
        run_on(if both_cores { &self.cores } else { &self.cores[..1] });
        let process = Process::spawn(&mut command);
        run_on(&self.cores[1..]);
        let event = process.wait_event("listening");
        let start = begun.elapsed();
        let authority = event["url"].as_str().and_then(|url| url.split('/').nth(2)?.parse::<SocketAddr>().ok());
        let socket = event["socket"].as_str().and_then(|path| SockAddr::unix(path).ok());
        let address = socket.or(authority.map(SockAddr::from)).expect("an address");
        if server.is_gateway() {
            process.wait_event("ready");
        }
        let tls = (via == Via::Tls).then(|| {
            let authority = CertificateDer::from_pem_file(self.programs.file("gateway-ca.pem")).unwrap();
            Arc::new(trusting([authority], ALL_VERSIONS))
        });
        let topic = format!("{TOPIC:x<prefixes$}");
        let connect = || Subscriber::connect(self.start, hub, subscribers, &topic.as_bytes()[..prefixes]);
        let own_subscriber = (subscribers > 0).then(connect);
        let server = RunningServer { server, process, address, start, tls, own_subscriber, publishers, topic };
        if subscribers > 0 {
            let mut request = Request::new(&server.topic, SMALL_BYTES, 1);
            let mut load = Load::connect(&server.address, None, 1);
            let post = || drop(load.closed_loop(&mut request, Duration::ZERO, None, |_| {}));
            self.await_subscriptions(&server, 1, post);
        }
        server
    }

    /// Lets `send` send so many messages, again and again, until each subscriber receives all of them. Before that, the
    /// subscriptions have not arrived everywhere.
    fn await_subscriptions(&self, server: &RunningServer, messages: u64, mut send: impl FnMut()) {
        let (subscriber, begun) = (self.subscriber_of(server), Instant::now());
        while begun.elapsed() < ARRIVAL_TIMEOUT {
            let before = subscriber.received();
            send();
            std::thread::sleep(ARRIVAL_PAUSE);
            if subscriber.received() == before + messages * subscriber.copies {
                return;
            }
        }
        panic!("not all subscriptions arrived in time");
    }

    pub(crate) fn measure(&self, server: &RunningServer, scenario: Scenario, rate_hz: f64) -> Figures {
        let mut request = Request::new(&server.topic, SMALL_BYTES, 1);
        match scenario {
            Scenario::Closed { connections, pipelined, body_bytes } => {
                request = Request::new(&server.topic, body_bytes, pipelined);
                let mut connected = self.warm(server, connections, &mut request);
                let pace = self.pace(server, body_bytes);
                let load = || connected.closed_loop(&mut request, self.duration, None, pace);
                let ran = self.run(server, load);
                let (mut figures, (outcome, cpu)) = (rates(&ran), &ran);
                if body_bytes > SMALL_BYTES {
                    let megabytes = outcome.requests as f64 * body_bytes as f64 / 1e6;
                    figures.push((Metric::CpuPerMegabyte, cpu.all.as_secs_f64() * 1e3 / megabytes));
                }
                if server.own_subscriber.is_some() {
                    figures.push(bus_per_message(&ran));
                }
                figures
            }
            Scenario::OneByOne => {
                let mut connected = self.warm(server, 1, &mut request);
                let (subscriber, before) = (self.subscriber_of(server), self.subscriber_of(server).received());
                // A pause would let the core of the server sleep.
                let pace = |requests| {
                    subscriber.wait_for_at_least(before + requests * subscriber.copies, std::thread::yield_now);
                };
                self.timed(server, || connected.closed_loop(&mut request, self.duration, Some(self.start), pace))
            }
            Scenario::HalfLoad { .. } => {
                let mut connected = self.warm(server, CONNECTIONS, &mut request);
                self.timed(server, || connected.open_loop(&mut request, rate_hz, self.duration, self.start))
            }
            Scenario::ConnectionEach { clients, resumed } => {
                let mut load = Load::of_clients(&server.address, server.tls.as_ref(), clients, resumed);
                let mut run = |time| self.run(server, || load.closed_loop(&mut request, time, None, |_| {}));
                run(WARM_UP);
                rates(&run(self.duration))
            }
            Scenario::Publish { publishers } => {
                let messages = publishers as u64;
                let publishers = Publishers::connect(&server.publishers, publishers, &server.topic);
                self.await_subscriptions(server, messages, || publishers.send());
                let run = |duration| self.run(server, || publishers.run(duration, self.pace(server, SMALL_BYTES)));
                run(WARM_UP);
                vec![bus_per_message(&run(self.duration))]
            }
            Scenario::SendCommand => {
                let mut input = self.programs.lines(SEND_LINES);
                let send = || {
                    input.rewind().unwrap();
                    let mut command = self.programs.send(&server.address);
                    let begun = Instant::now();
                    // It runs on the core of this thread.
                    let status = command.stdin(input).status().unwrap();
                    let elapsed = begun.elapsed();
                    assert!(status.success(), "a line was not accepted");
                    Outcome { requests: SEND_LINES, elapsed, delays_ns: Vec::new() }
                };
                rates(&self.run(server, send))
            }
            Scenario::Idle { connections } => {
                // What the first connection allocates for all does not count.
                drop(self.warm(server, 1, &mut request));
                let before = rss_bytes(server);
                let mut load = Load::connect(&server.address, server.tls.as_ref(), connections);
                self.run(server, || load.closed_loop(&mut request, Duration::ZERO, None, |_| {}));
                let grown = rss_bytes(server).saturating_sub(before);
                vec![(Metric::IdleBytes, grown as f64 / connections as f64)]
            }
            Scenario::Start => {
                vec![(Metric::Start, server.start.as_secs_f64() * 1e3), (Metric::Rss, rss_bytes(server) as f64 / 1e6)]
            }
        }
    }

    fn subscriber_of<'s>(&'s self, server: &'s RunningServer) -> &'s Subscriber {
        server.own_subscriber.as_ref().unwrap_or(&self.subscriber)
    }

    /// Returns what keeps a load from being further ahead of the subscriber than the queue of the server has room for.
    fn pace<'s>(&'s self, server: &'s RunningServer, body_bytes: usize) -> impl Fn(u64) + 's {
        let subscriber = self.subscriber_of(server);
        let before = subscriber.received();
        let ahead = AHEAD_MESSAGES.min((AHEAD_BYTES / body_bytes) as u64);
        move |requests| {
            let due = requests.saturating_sub(ahead) * subscriber.copies;
            if server.server.publishes() {
                subscriber.wait_for_at_least(before + due, Subscriber::pause);
            }
        }
    }

    /// Opens connections and runs a load on them that is not measured.
    fn warm(&self, server: &RunningServer, connections: usize, request: &mut Request) -> Load {
        let mut load = Load::connect(&server.address, server.tls.as_ref(), connections);
        let pace = self.pace(server, request.bytes.len() / request.pipelined);
        self.run(server, || load.closed_loop(request, WARM_UP, None, pace));
        load
    }

    /// Runs a load until the subscriber has all its messages. Returns its outcome and the server's processor time.
    fn run(&self, server: &RunningServer, load: impl FnOnce() -> Outcome) -> (Outcome, Cpu) {
        let subscriber = self.subscriber_of(server);
        let (received, cpu) = (subscriber.received(), cpu_of(server.process.id()));
        let begun = Instant::now();
        let mut outcome = load();
        if server.server.publishes() {
            let total = received + outcome.requests * subscriber.copies;
            subscriber.wait_for_at_least(total, Subscriber::pause);
            assert_eq!(subscriber.received(), total, "the messages that arrived, and those that were sent");
        }
        if server.own_subscriber.is_some() {
            // A load may be ahead of many subscribers by all that it sends in a short measurement.
            outcome.elapsed = begun.elapsed();
        }
        let now = cpu_of(server.process.id());
        (outcome, Cpu { all: now.all - cpu.all, bus: now.bus - cpu.bus })
    }

    fn timed(&self, server: &RunningServer, load: impl FnOnce() -> Outcome) -> Figures {
        let (mut ran, mut publish_ns) = self.subscriber_of(server).timed(|| self.run(server, load));
        let mut figures = vec![
            (Metric::PublishP50, percentile_us(&mut publish_ns, 50.0)),
            (Metric::PublishP99, percentile_us(&mut publish_ns, 99.0)),
            (Metric::HttpP50, percentile_us(&mut ran.0.delays_ns, 50.0)),
            (Metric::HttpP99, percentile_us(&mut ran.0.delays_ns, 99.0)),
        ];
        figures.extend(rates(&ran));
        figures
    }
}

fn rss_bytes(server: &RunningServer) -> u64 {
    resident_kib(server.process.id()) * 1024
}

fn rates((outcome, cpu): &(Outcome, Cpu)) -> Figures {
    vec![
        (Metric::CpuPerRequest, cpu.all.as_secs_f64() * 1e6 / outcome.requests as f64),
        (Metric::Requests, outcome.requests as f64 / outcome.elapsed.as_secs_f64()),
    ]
}

fn bus_per_message((outcome, cpu): &(Outcome, Cpu)) -> (Metric, f64) {
    (Metric::BusPerMessage, cpu.bus.as_secs_f64() * 1e6 / outcome.requests as f64)
}

/// Returns the least value that is not exceeded by `percent` of the delays, in µs.
fn percentile_us(delays_ns: &mut [u64], percent: f64) -> f64 {
    delays_ns.sort_unstable();
    let rank = (delays_ns.len() as f64 * percent / 100.0).ceil() as usize;
    delays_ns.get(rank.saturating_sub(1)).map_or(f64::NAN, |&ns| ns as f64 / 1e3)
}
