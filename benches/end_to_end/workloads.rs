//! The workloads, the servers that each of them compares, and the aims, which `workloads.json` names.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::measure::{CONNECTIONS, Metric, Scenario};
use crate::servers::{Server, Via};

/// A scenario, and the servers that are measured with it in turn.
#[derive(Debug, Deserialize)]
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) via: Via,
    pub(crate) scenario: Scenario,
    pub(crate) servers: Vec<Server>,
    #[serde(default)]
    pub(crate) aims: Vec<Aim>,
}

impl Workload {
    /// Returns whether `--quick` measures it: it compares two builds of the gateway within seconds. A workload that has
    /// no other server is measured by its name only.
    pub(crate) fn is_quick(&self) -> bool {
        let is_short = match self.scenario {
            Scenario::Closed { connections, .. } => connections <= CONNECTIONS,
            Scenario::OneByOne | Scenario::ConnectionEach { .. } | Scenario::Start => true,
            Scenario::HalfLoad { .. } | Scenario::Publish { .. } | Scenario::SendCommand | Scenario::Idle { .. } => {
                false
            }
        };
        is_short
            && self.servers.contains(&Server::GatewayOther)
            && self.servers != [Server::Gateway, Server::GatewayOther]
    }
}

/// An aim for the ratio of the gateway to another server: at most `bound`, and of requests a second at least.
#[derive(Debug, Deserialize)]
pub(crate) struct Aim {
    pub(crate) server: Server,
    pub(crate) beside: Server,
    pub(crate) metric: Metric,
    pub(crate) bound: f64,
}

pub(crate) static WORKLOADS: LazyLock<Vec<Workload>> =
    LazyLock::new(|| serde_json::from_str(include_str!("workloads.json")).expect("workloads"));
