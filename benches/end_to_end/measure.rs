//! One measurement of one server.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use crate::Failure;
use crate::cores::Cores;
use crate::handshakes;
use crate::load::{Load, Outcome};
use crate::process::Process;
use crate::request::Request;
use crate::servers::{Programs, Server};
use crate::stats::percentile_us;
use crate::subscriber::Subscriber;

/// What the last messages get to arrive.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Load that is not measured: what a server makes once, it has made.
const WARM_UP: Duration = Duration::from_millis(300);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Metric {
    /// All threads of the server, user and kernel, in µs.
    CpuPerRequest,
    /// The same, in ms.
    CpuPerMegabyte,
    /// A second.
    Requests,
    /// From sending a request to the subscriber's receiving the message: the median, in µs.
    PublishP50,
    /// The same, of 99 in 100.
    PublishP99,
    /// From sending a request to its answer: the median, in µs.
    HttpP50,
    /// The same, of 99 in 100.
    HttpP99,
    /// What resident memory grew by for each connection, in bytes.
    IdleBytes,
    /// From the start of the process to its saying that it listens, in ms.
    Start,
    /// Resident memory once it listens, in MB.
    Rss,
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CpuPerRequest => "CPU a request, µs",
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

/// What a server is put to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Strain {
    /// Each of so many connections sends so many requests at once, and again when they are answered.
    Closed { connections: usize, pipelined: usize, body_bytes: usize },
    /// The same of one connection, delays noted.
    OneByOne,
    /// 64 connections at half the rate that axum reaches, delays noted.
    HalfLoad,
    /// A connection, a handshake, a request, one after the other.
    Handshakes { resumed: bool },
    /// Connections that sent one request each.
    Idle { connections: usize },
    /// Started.
    Start,
}

/// Figures of one measurement.
pub(crate) type Figures = Vec<(Metric, f64)>;

/// The bench's own side.
pub(crate) struct Bench {
    pub(crate) programs: Programs,
    pub(crate) cores: Cores,
    pub(crate) start: Instant,
    pub(crate) subscriber: Subscriber,
    pub(crate) duration: Duration,
}

/// Bytes of a small message's body.
pub(crate) const SMALL_BYTES: usize = 110;

/// Connections of a load that says nothing else.
pub(crate) const CONNECTIONS: usize = 64;

/// A server that is being measured.
pub(crate) struct Subject {
    pub(crate) server: Server,
    pub(crate) process: Process,
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

impl Bench {
    /// Starts a server, and its trust where TLS is spoken.
    pub(crate) fn start(&self, server: Server, tls: bool) -> Result<Subject, Failure> {
        let command = self.programs.command(server, tls, self.subscriber.endpoint())?;
        let both_cores = server == Server::GatewayTwoWorkers;
        let process = Process::start(command, self.cores, both_cores, server.is_gateway())?;
        let tls = match tls {
            true => Some(handshakes::trusting(&self.programs.authority_pem()?)?),
            false => None,
        };
        Ok(Subject { server, process, tls })
    }

    /// Puts a load on a server and takes the figures.
    pub(crate) fn measure(&self, subject: &Subject, load: Strain, rate: f64) -> Result<Figures, Failure> {
        match load {
            Strain::Closed { connections, pipelined, body_bytes } => {
                let mut request = Request::new(body_bytes, pipelined);
                let mut connected = self.warm(subject, connections, &mut request)?;
                let load = || connected.closed_loop(&mut request, self.duration, None);
                let (outcome, cpu) = self.run(subject, load)?;
                let megabytes = outcome.requests as f64 * body_bytes as f64 / 1e6;
                let mut figures = vec![
                    (Metric::CpuPerRequest, cpu.as_secs_f64() * 1e6 / outcome.requests as f64),
                    (Metric::Requests, outcome.requests as f64 / outcome.elapsed.as_secs_f64()),
                ];
                if body_bytes > SMALL_BYTES {
                    figures.push((Metric::CpuPerMegabyte, cpu.as_secs_f64() * 1e3 / megabytes));
                }
                Ok(figures)
            }
            Strain::OneByOne => {
                let mut request = Request::new(SMALL_BYTES, 1);
                let mut connected = self.warm(subject, 1, &mut request)?;
                self.timed(subject, || connected.closed_loop(&mut request, self.duration, Some(self.start)))
            }
            Strain::HalfLoad => {
                let mut request = Request::new(SMALL_BYTES, 1);
                let mut connected = self.warm(subject, CONNECTIONS, &mut request)?;
                self.timed(subject, || connected.open_loop(&mut request, rate, self.duration, self.start))
            }
            Strain::Handshakes { resumed } => {
                let tls = subject.tls.as_ref().ok_or("handshakes are of TLS")?;
                let load = || handshakes::load(subject.process.address, tls, resumed, self.duration);
                let (outcome, cpu) = self.run(subject, load)?;
                Ok(vec![
                    (Metric::CpuPerRequest, cpu.as_secs_f64() * 1e6 / outcome.requests as f64),
                    (Metric::Requests, outcome.requests as f64 / outcome.elapsed.as_secs_f64()),
                ])
            }
            Strain::Idle { connections } => self.idle(subject, connections),
            Strain::Start => Ok(vec![
                (Metric::Start, subject.process.start.as_secs_f64() * 1e3),
                (Metric::Rss, subject.process.rss_bytes()? as f64 / 1e6),
            ]),
        }
    }

    fn warm(&self, subject: &Subject, connections: usize, request: &mut Request) -> Result<Load, Failure> {
        let mut load = Load::connect(subject.process.address, subject.tls.as_ref(), connections)?;
        self.run(subject, || load.closed_loop(request, WARM_UP, None))?;
        Ok(load)
    }

    /// A load, the server's time on it, and every message of it at the subscriber.
    fn run(
        &self,
        subject: &Subject,
        load: impl FnOnce() -> Result<Outcome, Failure>,
    ) -> Result<(Outcome, Duration), Failure> {
        let (received, cpu) = (self.subscriber.received(), subject.process.cpu()?);
        let outcome = load()?;
        if subject.server.publishes() {
            self.subscriber.wait_for(received + outcome.requests, ARRIVAL_TIMEOUT)?;
        }
        Ok((outcome, subject.process.cpu()? - cpu))
    }

    fn timed(&self, subject: &Subject, load: impl FnOnce() -> Result<Outcome, Failure>) -> Result<Figures, Failure> {
        self.subscriber.begin_timing();
        let (mut outcome, cpu) = self.run(subject, load)?;
        let mut publish_ns = self.subscriber.end_timing();
        Ok(vec![
            (Metric::PublishP50, percentile_us(&mut publish_ns, 50.0)),
            (Metric::PublishP99, percentile_us(&mut publish_ns, 99.0)),
            (Metric::HttpP50, percentile_us(&mut outcome.delays_ns, 50.0)),
            (Metric::HttpP99, percentile_us(&mut outcome.delays_ns, 99.0)),
            (Metric::CpuPerRequest, cpu.as_secs_f64() * 1e6 / outcome.requests as f64),
            (Metric::Requests, outcome.requests as f64 / outcome.elapsed.as_secs_f64()),
        ])
    }

    fn idle(&self, subject: &Subject, connections: usize) -> Result<Figures, Failure> {
        let mut request = Request::new(SMALL_BYTES, 1);
        // What the first connection makes is not a connection's own.
        drop(self.warm(subject, 1, &mut request)?);
        let before = subject.process.rss_bytes()?;
        let mut load = Load::connect(subject.process.address, subject.tls.as_ref(), connections)?;
        self.run(subject, || load.closed_loop(&mut request, Duration::ZERO, None))?;
        let grown = subject.process.rss_bytes()?.saturating_sub(before);
        Ok(vec![(Metric::IdleBytes, grown as f64 / connections as f64)])
    }
}
