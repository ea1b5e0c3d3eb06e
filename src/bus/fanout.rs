//! One message to every connected endpoint: each gets it once, and all in the same order.
//!
//! A message leaves the queue when every endpoint that is connected has it, and at least one has.
//! So the slowest connected endpoint sets the pace, one that is away is not waited for, and while
//! all are away nothing is thrown away.

use std::io;
use std::time::Instant;

use super::outlet::{Outlet, Report, Sent};
use super::queue::Parcel;
use super::wait::Waiter;

/// What became of the message in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// Every connected endpoint has it.
    Taken,
    /// A connected endpoint has no room; offer it again when there is.
    Full,
    /// No endpoint is connected; offer it again when one is.
    NobodyThere,
}

/// All publishing sockets.
pub(super) struct Fanout {
    branches: Vec<Branch>,
}

struct Branch {
    outlet: Outlet,
    /// It has the message in hand.
    served: bool,
}

impl Fanout {
    pub(super) fn new(outlets: Vec<Outlet>) -> Self {
        let branches = outlets.into_iter().map(|outlet| Branch { outlet, served: false });
        Self { branches: branches.collect() }
    }

    /// Offers the message in hand to every endpoint that does not have it yet. After
    /// [`Offer::Taken`] its frames may be empty; otherwise the same message must be offered next.
    pub(super) fn offer(&mut self, parcel: &mut Parcel) -> Offer {
        let mut missing = self.branches.iter().filter(|branch| branch.wants()).count();
        let mut full = false;
        for branch in self.branches.iter_mut().filter(|branch| branch.wants()) {
            // With others still waiting for it, the frames are shared instead of handed over.
            let last = missing == 1 && !full;
            branch.served = branch.outlet.send(parcel, last) == Sent::Taken;
            full |= !branch.served;
            missing -= 1;
        }
        if full {
            return Offer::Full;
        }
        if !self.branches.iter().any(|branch| branch.served) {
            return Offer::NobodyThere;
        }
        for branch in &mut self.branches {
            branch.served = false;
        }
        Offer::Taken
    }

    /// See [`Outlet::tend`].
    pub(super) fn tend(&mut self, now: Instant, report: &mut Report<'_>) {
        for branch in &mut self.branches {
            branch.outlet.tend(now, report);
        }
    }

    /// See [`Outlet::deadline`]; the earliest of all.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.branches.iter().filter_map(|branch| branch.outlet.deadline()).min()
    }

    /// See [`Outlet::watch`].
    pub(super) fn watch(&self, waiter: &Waiter) -> io::Result<()> {
        self.branches.iter().try_for_each(|branch| branch.outlet.watch(waiter))
    }

    /// See [`Outlet::close`].
    pub(super) fn close(self, linger_ms: i32) {
        for branch in self.branches {
            branch.outlet.close(linger_ms);
        }
    }
}

impl Branch {
    fn wants(&self) -> bool {
        !self.served && self.outlet.is_up()
    }
}
