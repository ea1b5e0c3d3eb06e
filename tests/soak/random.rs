//! Random choices that a seed repeats.

use std::ops::Range;
use std::time::Duration;

/// The generator SplitMix64: small, and good enough to choose with.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a generator of its own for one of many users of a seed.
    pub(crate) fn for_user(seed: u64, user: u64) -> Self {
        Self(Self(seed ^ user.wrapping_mul(0x9e37_79b9_7f4a_7c15)).next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn within(&mut self, range: Range<usize>) -> usize {
        range.start + (self.next() % range.len() as u64) as usize
    }

    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.within(0..100) < percent
    }

    pub(crate) fn pause_ms(&mut self, range: Range<usize>) -> Duration {
        Duration::from_millis(self.within(range) as u64)
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.within(0..last + 1));
        }
    }
}
