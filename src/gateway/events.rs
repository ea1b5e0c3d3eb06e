//! Events: what the gateway reports to its parent process, one JSON object a line on standard output.
//! `docs/reference.md` tells what each event, each field and each counter means.

use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::bus::BusCounters;
use crate::server::counters::WorkerCounters;

/// An event. The order of the fields is their order in the JSON object. A `reason` is a sentence.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(crate) enum Event<'a> {
    Listening {
        url: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        socket: Option<&'a Path>,
        pid: u32,
        io: &'static str,
    },
    Ready,
    #[serde(rename = "not-ready")]
    NotReady {
        reason: &'a str,
    },
    Disabled {
        reason: &'a str,
    },
    Bus {
        state: BusEndpointState,
        endpoint: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
    },
    Subscriber {
        state: BusEndpointState,
        endpoint: &'a str,
        peer: &'a str,
        reason: &'a str,
        lost: u64,
    },
    Settings(&'a SettingsChange),
    Certificate {
        state: CertificateState,
        path: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        not_after: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
    },
    Stats(Stats),
    Failed {
        status: u8,
        reason: &'a str,
    },
    Stopped {
        #[serde(skip_serializing_if = "Option::is_none")]
        undelivered: Option<NonZero<u64>>,
        #[serde(flatten)]
        stats: Stats,
    },
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BusEndpointState {
    Bound,
    Connected,
    Disconnected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CertificateState {
    Made,
    Renewed,
    Replaced,
    Rejected,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub(crate) enum SettingsChange {
    Reloaded,
    Unchanged,
    Rejected { reason: String },
}

/// The counters since the start, and the present state. A counter is declared where it is counted.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Stats {
    pub(crate) uptime_s: u64,
    pub(crate) connections: u64,
    #[serde(flatten)]
    pub(crate) workers: WorkerCounters,
    #[serde(flatten)]
    pub(crate) bus: BusCounters,
}

pub(crate) type EventSink = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

#[cfg(test)]
mod tests;
