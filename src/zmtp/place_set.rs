//! A set of subscribers, by their places. Each entry of the log has one, so it is of bits: with an array of `bool`, an
//! entry has three times the bytes, and a message took 8 to 18 times as long, with 1, 16 and 256 subscribers.

use std::{iter, mem};

/// The most subscribers of all bound endpoints together: every `u8` is a place. A set of them fits in half a cache line.
pub const MAX_SUBSCRIBERS: usize = u8::MAX as usize + 1;

const WORD_BITS: u8 = 64;

/// A set of places of subscribers: 0 to `MAX_SUBSCRIBERS - 1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceSet([u64; MAX_SUBSCRIBERS / WORD_BITS as usize]);

impl PlaceSet {
    /// Adds a place. Returns whether it was not in the set.
    pub fn insert(&mut self, place: u8) -> bool {
        let (index, bit) = position(place);
        self.0.get_mut(index).is_some_and(|word| mem::replace(word, *word | bit) & bit == 0)
    }

    /// Removes a place. Returns whether it was in the set.
    pub fn remove(&mut self, place: u8) -> bool {
        let (index, bit) = position(place);
        self.0.get_mut(index).is_some_and(|word| mem::replace(word, *word & !bit) & bit != 0)
    }

    /// Returns whether the place is in the set.
    pub fn contains(&self, place: u8) -> bool {
        let (index, bit) = position(place);
        self.0.get(index).is_some_and(|word| word & bit != 0)
    }

    /// Returns whether no place is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Returns the number of places in the set.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the places in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u8> + use<> {
        let mut words = self.0;
        iter::from_fn(move || {
            let (word, index) = words.iter_mut().zip(0..).find(|(word, _)| **word != 0)?;
            let lowest = word.trailing_zeros() as u8;
            *word &= *word - 1;
            Some(index * WORD_BITS + lowest)
        })
    }

    /// Returns the set of which each bit is what `combine` makes of the bits of both sets.
    pub(super) fn combined(mut self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(ours, theirs)| *ours = combine(*ours, theirs));
        self
    }
}

/// Returns the index of the word of a place, and its bit.
fn position(place: u8) -> (usize, u64) {
    (usize::from(place / WORD_BITS), 1 << (place % WORD_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(places: &[u8]) -> PlaceSet {
        let mut set = PlaceSet::default();
        places.iter().for_each(|place| assert!(set.insert(*place)));
        set
    }

    #[test]
    fn a_set_has_what_was_inserted_and_not_removed() {
        for places in [&[][..], &[0], &[63, 64], &[0, 1, 127, 128, 191, 192, 255]] {
            let mut set = set(places);
            assert_eq!(set.iter().collect::<Vec<_>>(), places);
            assert_eq!((set.len(), set.is_empty()), (places.len(), places.is_empty()));
            for place in 0..=u8::MAX {
                assert_eq!(set.contains(place), places.contains(&place), "{place} of {places:?}");
            }
            for place in places {
                assert!(!set.insert(*place));
                assert!(set.remove(*place) && !set.remove(*place) && !set.contains(*place));
            }
            assert!(set.is_empty());
        }
        assert_eq!(set(&Vec::from_iter(0..=u8::MAX)).len(), MAX_SUBSCRIBERS);
    }

    #[test]
    fn sets_are_combined_place_by_place() {
        let (one, other) = (set(&[1, 64, 255]), set(&[1, 65, 254]));
        assert_eq!(one.combined(&other, |one, other| one | other), set(&[1, 64, 65, 254, 255]));
        assert_eq!(one.combined(&other, |one, other| one & other), set(&[1]));
    }
}
