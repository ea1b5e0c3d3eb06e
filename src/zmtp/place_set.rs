//! A set of subscribers, by their places.

use std::iter;

/// The most subscribers of all bound endpoints together. A set of them fits in half a cache line.
pub const MAX_SUBSCRIBERS: usize = 256;

const WORD_BITS: u8 = 64;

/// A set of places of subscribers: 0 to `MAX_SUBSCRIBERS - 1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceSet([u64; MAX_SUBSCRIBERS / WORD_BITS as usize]);

// Every `u8` is a place.
const _: () = assert!(MAX_SUBSCRIBERS == u8::MAX as usize + 1);

impl PlaceSet {
    /// Adds a place. Returns whether it was not in the set.
    pub fn insert(&mut self, place: u8) -> bool {
        let is_new = !self.contains(place);
        if let Some(word) = self.0.get_mut(word_of(place)) {
            *word |= bit_of(place);
        }
        is_new
    }

    /// Removes a place.
    pub fn remove(&mut self, place: u8) {
        if let Some(word) = self.0.get_mut(word_of(place)) {
            *word &= !bit_of(place);
        }
    }

    /// Returns whether the place is in the set.
    pub fn contains(&self, place: u8) -> bool {
        self.0.get(word_of(place)).is_some_and(|word| word & bit_of(place) != 0)
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
            let (index, word) = words.iter_mut().enumerate().find(|(_, word)| **word != 0)?;
            let lowest = word.trailing_zeros() as u8;
            *word &= *word - 1;
            Some(index as u8 * WORD_BITS + lowest)
        })
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        self.combined(other, |ours, theirs| ours | theirs)
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        self.combined(other, |ours, theirs| ours & theirs)
    }

    pub(super) fn difference(&self, other: &Self) -> Self {
        self.combined(other, |ours, theirs| ours & !theirs)
    }

    fn combined(mut self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(ours, theirs)| *ours = combine(*ours, theirs));
        self
    }
}

fn word_of(place: u8) -> usize {
    usize::from(place / WORD_BITS)
}

fn bit_of(place: u8) -> u64 {
    1 << (place % WORD_BITS)
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
                set.remove(*place);
                assert!(!set.contains(*place));
            }
            assert!(set.is_empty());
        }
        assert_eq!(set(&Vec::from_iter(0..=u8::MAX)).len(), MAX_SUBSCRIBERS);
    }

    #[test]
    fn sets_are_combined_place_by_place() {
        let (one, other) = (set(&[1, 64, 255]), set(&[1, 65, 254]));
        assert_eq!(one.union(&other), set(&[1, 64, 65, 254, 255]));
        assert_eq!(one.intersection(&other), set(&[1]));
    }
}
