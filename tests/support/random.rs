//! Random choices that are the same for the same seed, on every machine.

use super::*;

/// The generator SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators"), with its seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns another generator, whose numbers do not depend on how many this one gives later.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// Returns a generator of its own for one of many users of a seed.
    pub(crate) fn for_user(seed: u64, user: u64) -> Self {
        Self(seed ^ user.wrapping_mul(0x9e37_79b9_7f4a_7c15)).fork()
    }

    /// Returns a number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn within(&mut self, range: Range<usize>) -> usize {
        range.start + self.below(range.len())
    }

    pub(crate) fn pause_ms(&mut self, range: Range<usize>) -> Duration {
        Duration::from_millis(self.within(range) as u64)
    }

    pub(crate) fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    /// Returns `true` so many times in a thousand.
    pub(crate) fn permille(&mut self, times: usize) -> bool {
        self.below(1000) < times
    }

    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// Returns at most so many bytes.
    pub(crate) fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.next() as u8).collect()
    }

    /// Returns so many bytes, which may be a great many: eight of them are made at a time.
    pub(crate) fn many_bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}
