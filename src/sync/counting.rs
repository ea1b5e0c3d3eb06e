//! Counts that one thread writes and any thread reads.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Serialize, Serializer};

/// A number that only grows. Whoever reads it sees also what its writer did before.
#[derive(Debug, Default, Serialize)]
pub struct Tally(AtomicU64);

impl Tally {
    /// Only one thread writes the count, so no read-modify-write instruction is needed.
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Release);
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

impl Clone for Tally {
    fn clone(&self) -> Self {
        self.get().into()
    }
}

impl From<u64> for Tally {
    fn from(count: u64) -> Self {
        Self(count.into())
    }
}

impl PartialEq for Tally {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

/// Made by `counted_enum!`.
pub trait Counted: Copy + Debug + 'static {
    /// The name of a variant in the `stats` event.
    type Key: Ord + Serialize;
    /// A count for each variant.
    type Counts: AsRef<[Tally]> + Clone + Debug + Default;
    /// All variants, each at its index.
    const ALL: &'static [Self];

    /// The index of the variant.
    fn index(self) -> usize;

    /// Its name in the `stats` event.
    fn key(self) -> Self::Key;
}

/// A tally for each variant of an enum. The `stats` event leaves out those that never occurred.
#[derive(Clone, Debug)]
pub struct TallyOf<E: Counted>(E::Counts);

impl<E: Counted> Default for TallyOf<E> {
    fn default() -> Self {
        Self(E::Counts::default())
    }
}

impl<E: Counted> TallyOf<E> {
    /// The tally of a variant.
    pub fn of(&self, variant: E) -> &Tally {
        #[expect(clippy::indexing_slicing, reason = "there is a count for each variant")]
        &self.0.as_ref()[variant.index()]
    }

    /// Adds the counts of another worker to sums.
    pub fn add_from(&self, worker: &Self) {
        self.0.as_ref().iter().zip(worker.0.as_ref()).for_each(|(sum, count)| sum.add(count.get()));
    }

    /// The counts that are not 0, by the names of their variants.
    pub fn counts(&self) -> BTreeMap<E::Key, u64> {
        let counts = E::ALL.iter().map(|variant| (variant.key(), self.of(*variant).get()));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

impl<E: Counted> Serialize for TallyOf<E> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.counts().serialize(serializer)
    }
}

/// Defines an enum with a row for each variant.
macro_rules! enum_of_rows {
    ($(#[$meta:meta])* pub enum $name:ident: $row:ty => {
        $($(#[$doc:meta])* $variant:ident = $value:expr,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// All variants with their rows.
            #[allow(dead_code, reason = "not every enum of rows is searched")]
            const ROWS: &'static [(Self, $row)] = &[$((Self::$variant, $value)),*];

            const fn row(self) -> $row {
                match self { $(Self::$variant => $value,)* }
            }
        }
    };
}

/// Defines an enum with a row for each variant, which is counted under `$key` of this row.
macro_rules! counted_enum {
    ($(#[$meta:meta])* pub enum $name:ident: $row:ty, $key_type:ty = $key:expr => {
        $($(#[$doc:meta])* $variant:ident = $value:expr,)*
    }) => {
        $crate::sync::counting::enum_of_rows! {
            $(#[$meta])* pub enum $name: $row => { $($(#[$doc])* $variant = $value,)* }
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

pub(crate) use {counted_enum, enum_of_rows};
