//! Each counter is declared once, with its total over the workers and its name in `stats`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// A counter of a worker. The worker alone writes it, and any thread reads it.
pub trait Counter {
    /// The total of the counters of several workers.
    type Total: Clone + Debug + Default + PartialEq + Eq + Serialize;

    /// Adds what this worker has counted.
    fn add_to(&self, total: &mut Self::Total);
}

/// The total of the counters of several workers.
pub fn sum<'c, C: Counter + 'c>(workers: impl IntoIterator<Item = &'c C>) -> C::Total {
    let mut total = C::Total::default();
    workers.into_iter().for_each(|worker| worker.add_to(&mut total));
    total
}

impl<C: Counter> Counter for Arc<C> {
    type Total = C::Total;

    fn add_to(&self, total: &mut C::Total) {
        C::add_to(self, total);
    }
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Tally(AtomicU64);

impl Tally {
    /// Only one thread writes the count, so no read-modify-write instruction is needed.
    pub fn add(&self, count: usize) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count as u64), Ordering::Relaxed);
    }
}

impl Counter for Tally {
    type Total = u64;

    fn add_to(&self, total: &mut u64) {
        *total += self.0.load(Ordering::Relaxed);
    }
}

/// Made by `counted_enum!`.
pub trait Counted: Copy + Debug + 'static {
    /// The name of a variant in the `stats` event.
    type Key: Clone + Debug + Ord + Serialize;
    /// A count for each variant.
    type Counts: AsRef<[Tally]> + Debug + Default;
    /// All variants, each at its index.
    const ALL: &'static [Self];

    /// The index of the variant.
    fn index(self) -> usize;

    /// Its name in the `stats` event.
    fn key(self) -> Self::Key;
}

/// A tally for each variant of an enum. The total leaves out those that never occurred.
#[derive(Debug)]
pub struct TallyOf<E: Counted>(E::Counts);

impl<E: Counted> Default for TallyOf<E> {
    fn default() -> Self {
        Self(E::Counts::default())
    }
}

impl<E: Counted> TallyOf<E> {
    /// Counts one more.
    pub fn add(&self, variant: E) {
        #[expect(clippy::indexing_slicing, reason = "there is a count for each variant")]
        self.0.as_ref()[variant.index()].add(1);
    }
}

impl<E: Counted> Counter for TallyOf<E> {
    type Total = BTreeMap<E::Key, u64>;

    fn add_to(&self, total: &mut Self::Total) {
        for (variant, count) in E::ALL.iter().zip(self.0.as_ref()) {
            let mut of_variant = 0;
            count.add_to(&mut of_variant);
            if of_variant > 0 {
                *total.entry(variant.key()).or_default() += of_variant;
            }
        }
    }
}

/// Connections of a worker.
#[derive(Debug, Default)]
pub struct ConnectionCounters {
    accepted: Tally,
    closed: AtomicU64,
}

/// The total of [`ConnectionCounters`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConnectionTotals {
    /// Connections that are open now.
    pub connections: u64,
    /// Connections accepted since the start.
    pub connections_accepted: u64,
}

impl ConnectionCounters {
    /// Counts a connection that was accepted.
    pub fn opened(&self) {
        self.accepted.add(1);
    }

    /// Counts a connection that was closed. Whoever reads this count sees also what it gave back before, such as its
    /// part of the [`Budget`](crate::sync::limits::Budget).
    pub fn closed(&self) {
        self.closed.store(self.closed.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }
}

impl Counter for ConnectionCounters {
    type Total = ConnectionTotals;

    fn add_to(&self, total: &mut ConnectionTotals) {
        // Closed is read first: a connection that opens meanwhile must not make the difference negative.
        let closed = self.closed.load(Ordering::Acquire);
        let mut accepted = 0;
        self.accepted.add_to(&mut accepted);
        total.connections_accepted += accepted;
        total.connections += accepted.saturating_sub(closed);
    }
}

/// Defines the counters of a worker and their totals, under the names of the fields in the `stats` event.
macro_rules! counters {
    ($(#[$meta:meta])* $vis:vis struct $counters:ident => $totals:ident {
        $($(#[$doc:meta])* $field:ident: $counter:ty,)*
    }) => {
        $(#[$meta])*
        #[allow(missing_docs, reason = "most counters say by their names what they count")]
        #[derive(Debug, Default)]
        $vis struct $counters {
            $($(#[$doc])* $vis $field: $counter,)*
        }

        #[allow(missing_docs, reason = "most counters say by their names what they count")]
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
        pub struct $totals {
            $($(#[$doc])* pub $field: <$counter as $crate::sync::counting::Counter>::Total,)*
        }

        impl $crate::sync::counting::Counter for $counters {
            type Total = $totals;

            fn add_to(&self, total: &mut $totals) {
                $(self.$field.add_to(&mut total.$field);)*
            }
        }
    };
}

/// Defines an enum with a row for each variant, which is counted under `$key` of this row.
macro_rules! counted_enum {
    ($(#[$meta:meta])* pub enum $name:ident: $row:ty, $key_type:ty = $key:expr => {
        $($(#[$doc:meta])* $variant:ident = $value:expr,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            const fn row(self) -> $row {
                match self { $(Self::$variant => $value,)* }
            }
        }

        impl $crate::sync::counting::Counted for $name {
            type Key = $key_type;
            type Counts = [$crate::sync::counting::Tally; [$(Self::$variant),*].len()];
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            fn index(self) -> usize {
                self as usize
            }

            fn key(self) -> $key_type {
                $key(self)
            }
        }
    };
}

pub(crate) use {counted_enum, counters};

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn an_open_connection_counts_while_others_come_and_go() {
        let counters = ConnectionCounters::default();
        counters.opened();
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                for _ in 0..100_000 {
                    counters.opened();
                    counters.closed();
                }
            });
            while !worker.is_finished() {
                assert!(sum([&counters]).connections >= 1);
            }
        });
        assert_eq!(sum([&counters]), ConnectionTotals { connections: 1, connections_accepted: 100_001 });
    }
}
