//! One publishing socket: either every `--bind` endpoint, or one `--connect` endpoint.
//!
//! Each `--connect` endpoint has an XPUB of its own, because a subscription read from an XPUB does
//! not say which connection it came by, and "connected" is decided for each endpoint. Bound
//! endpoints need no such decision and share one.
//!
//! `ZMQ_IMMEDIATE` stays off, on purpose. With it libzmq destroys the pipe whenever the connection
//! is lost, and every message in it. Without it the pipe, its messages and the subscriptions
//! outlive the connection: what had been handed over is sent to the hub when it is back, and what
//! is sent in the moment before the loss is noticed is not dropped for want of a subscriber. Before
//! the first connection the pipe has no subscription, so nothing may be sent into it:
//! [`super::link`] sees to that.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::endpoint::Endpoint;
use super::ffi;
use super::link::{Change, Link, Sign};
use super::monitor::Monitor;
use super::queue::Parcel;
use super::shared::Gauge;
use super::socket::{self, Subscription};
use super::wait::Waiter;

/// Told which endpoint became connected (`true`) or lost its connection.
pub(super) type Report<'a> = dyn FnMut(&Gauge, bool) + 'a;

/// What became of an offered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// libzmq has it.
    Taken,
    /// The pipe of a subscriber is full.
    Full,
}

/// A publishing socket and what is known about its peers.
pub(super) struct Outlet {
    socket: zmq::Socket,
    /// `None` for the bound socket.
    dial: Option<Dial>,
    /// The topic frame of the message in hand is in libzmq, its payload is not.
    half_sent: bool,
}

struct Dial {
    gauge: Arc<Gauge>,
    monitor: Monitor,
    link: Link,
}

impl Outlet {
    /// A socket for bound endpoints; they are added with [`Outlet::bind`].
    pub(super) fn binding(context: &zmq::Context, pipe_messages: u16) -> io::Result<Self> {
        let socket = socket::publishing(context, pipe_messages)?;
        Ok(Self { socket, dial: None, half_sent: false })
    }

    /// Binds one more endpoint; returns the one actually bound, wildcards resolved.
    pub(super) fn bind(&mut self, endpoint: &Endpoint) -> io::Result<Endpoint> {
        socket::bind(&mut self.socket, endpoint)
    }

    /// A socket that dials the gauge's endpoint from now on. `name` must be unique in the context.
    pub(super) fn connecting(
        context: &zmq::Context,
        gauge: Arc<Gauge>,
        pipe_messages: u16,
        name: &str,
    ) -> io::Result<Self> {
        let mut socket = socket::publishing(context, pipe_messages)?;
        // Each subscription is shown, also one that the pipe still has from the last connection.
        socket.set_xpub_verbose(true)?;
        socket.set_ipv6(gauge.endpoint.is_ipv6())?;
        let monitor = Monitor::of(context, &socket, name)?;
        ffi::connect(&mut socket, gauge.endpoint.as_str())?;
        let dial = Dial { gauge, monitor, link: Link::new() };
        Ok(Self { socket, dial: Some(dial), half_sent: false })
    }

    /// Whether messages may be sent.
    pub(super) fn is_up(&self) -> bool {
        self.dial.as_ref().is_none_or(|dial| dial.link.is_up())
    }

    /// Hands one message to libzmq, or nothing of it.
    ///
    /// libzmq 4.3.4, as read in `xpub.cpp`, `dist.cpp` and `pipe.cpp`: with `NODROP` each frame is
    /// checked against the pipes that matched the topic, and a pipe counts whole messages only. So
    /// the topic frame is refused with `EAGAIN` while any matching pipe is full, and once it is in,
    /// the payload cannot be refused, since its own topic did not count. A pipe that dies in
    /// between leaves the set of matching pipes and takes its topic frame with it: frames become
    /// visible to the other side only with the last one. One that appears in between gets nothing
    /// of this message. So no peer sees half a message. Should a payload be refused all the
    /// same, the message goes on where it stopped.
    pub(super) fn send(&mut self, parcel: &mut Parcel, last: bool) -> Sent {
        if !self.half_sent {
            self.half_sent = socket::offer(&mut self.socket, &mut parcel.topic.share(), true);
        }
        if !self.half_sent {
            return Sent::Full;
        }
        let taken = if last {
            socket::offer(&mut self.socket, &mut parcel.payload, false)
        } else {
            socket::offer(&mut self.socket, &mut parcel.payload.share(), false)
        };
        self.half_sent = !taken;
        if taken { Sent::Taken } else { Sent::Full }
    }

    /// Takes in what happened to the connection and who subscribed, and reports each change of a
    /// `--connect` endpoint. Leaves nothing unread, as [`Outlet::watch`] demands.
    pub(super) fn tend(&mut self, now: Instant, report: &mut Report<'_>) {
        let Some(dial) = &mut self.dial else {
            while socket::next_subscription(&mut self.socket).is_some() {}
            return;
        };
        let mut tell = |change| match change {
            Some(Change::Up) => report(&dial.gauge, true),
            Some(Change::Down) => report(&dial.gauge, false),
            None => {}
        };
        // The monitor first: a subscription read after the loss of a connection may be an old one,
        // which costs nothing, one read before it would be forgotten with the connection.
        while let Some(sign) = dial.monitor.next() {
            tell(dial.link.saw(sign, now));
        }
        while let Some(news) = socket::next_subscription(&mut self.socket) {
            if news == Subscription::Added {
                tell(dial.link.saw(Sign::Subscription, now));
            }
        }
        tell(dial.link.settle(now));
        if dial.link.redial_is_due(now) {
            redial(&mut self.socket, &dial.gauge.endpoint);
        }
    }

    /// When [`Outlet::tend`] must be called even if nothing happens.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.dial.as_ref().and_then(|dial| dial.link.deadline())
    }

    /// Has `waiter` wait for news of the socket and of its monitor, room in a full pipe included: for what comes after
    /// the last [`Outlet::tend`].
    pub(super) fn watch(&self, waiter: &Waiter) -> io::Result<()> {
        waiter.add(ffi::descriptor(&self.socket)?)?;
        match &self.dial {
            Some(dial) => waiter.add(dial.monitor.descriptor()?),
            None => Ok(()),
        }
    }

    /// Closes the socket; libzmq goes on sending for at most `linger_ms`.
    pub(super) fn close(self, linger_ms: i32) {
        let _ = self.socket.set_linger(linger_ms);
    }
}

/// libzmq forgets an endpoint after a protocol error, whatever its reconnect options say.
fn redial(socket: &mut zmq::Socket, endpoint: &Endpoint) {
    // What fails here fails again, or not, at the next redial.
    let _ = ffi::disconnect(socket, endpoint.as_str());
    let _ = ffi::connect(socket, endpoint.as_str());
}
