//! The subscriptions that one connection keeps, and a bound on what the subscriptions of all connections cost.

use std::collections::HashSet;
use std::sync::Arc;

use crate::proto::budget::{Budget, Hold};

/// What the subscriptions of all connections may cost together, beyond the part that is each connection's own, in bytes.
pub const SUBSCRIPTION_BYTES: usize = 24 * 1024 * 1024;
/// What the subscriptions of one connection may cost, in bytes: half of all, so that one peer leaves room for others.
pub const CONNECTION_SUBSCRIPTION_BYTES: usize = SUBSCRIPTION_BYTES / 2;
/// What the subscriptions of each connection may cost even if other connections have used up everything, in bytes: some
/// ten subscriptions of the usual length.
pub const OWN_SUBSCRIPTION_BYTES: usize = 32 * 1024;

/// What libzmq may use for a subscription whatever its length, in bytes. Its trie has a node for each byte, and a node
/// with several children has a table of up to 256 pointers. Each subscription makes at most one node have several
/// children. The rest is for the set of receivers at its last node, and for the set here.
const FIXED_COST_BYTES: usize = 2_304;
/// What each byte of a prefix costs: a node of the trie takes 32 bytes, and the byte itself is kept here and, for a
/// while, in a notification.
const COST_BYTES_PER_BYTE: usize = 34;

/// Returns what a subscription to a prefix of so many bytes counts.
#[must_use]
pub const fn subscription_cost_bytes(prefix_bytes: usize) -> usize {
    FIXED_COST_BYTES + prefix_bytes * COST_BYTES_PER_BYTE
}

/// The subscriptions of one connection. What they hold of the budget is given back on drop.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    prefixes: HashSet<Box<[u8]>>,
    cost_bytes: usize,
    hold: Option<Hold>,
}

impl Subscriptions {
    /// Keeps a subscription. Returns whether libzmq must see it: not if it is kept already, as libzmq counts no
    /// repetitions, and not if a bound is reached.
    pub(super) fn add(&mut self, prefix: &[u8], budget: &Arc<Budget>) -> bool {
        let cost_bytes = self.cost_bytes + subscription_cost_bytes(prefix.len());
        if self.prefixes.contains(prefix) || cost_bytes > CONNECTION_SUBSCRIPTION_BYTES {
            return false;
        }
        let shared_bytes = cost_bytes.saturating_sub(OWN_SUBSCRIPTION_BYTES);
        let is_covered = match &mut self.hold {
            Some(hold) => hold.cover(shared_bytes),
            None => {
                self.hold = budget.hold(shared_bytes);
                self.hold.is_some()
            }
        };
        if is_covered {
            self.cost_bytes = cost_bytes;
            self.prefixes.insert(prefix.into());
        }
        is_covered
    }

    /// Forgets a subscription. Returns whether it was kept, so that libzmq must see the cancellation.
    pub(super) fn remove(&mut self, prefix: &[u8]) -> bool {
        let was_kept = self.prefixes.remove(prefix);
        if was_kept {
            self.cost_bytes -= subscription_cost_bytes(prefix.len());
            if let Some(hold) = &mut self.hold {
                hold.shrink(self.cost_bytes.saturating_sub(OWN_SUBSCRIPTION_BYTES));
            }
        }
        was_kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repetition_and_an_unknown_cancellation_change_nothing() {
        let budget = Budget::new(0);
        let mut subscriptions = Subscriptions::default();
        assert!(subscriptions.add(b"a", &budget) && !subscriptions.add(b"a", &budget));
        assert!(!subscriptions.remove(b"") && subscriptions.remove(b"a") && !subscriptions.remove(b"a"));
        assert_eq!(subscriptions.cost_bytes, 0);
    }

    #[test]
    fn each_connection_has_a_part_of_its_own_and_all_share_the_rest() {
        let budget = Budget::new(4 * subscription_cost_bytes(1));
        let fill =
            |subscriptions: &mut Subscriptions| (0..=255).filter(|byte| subscriptions.add(&[*byte], &budget)).count();
        let (mut first, mut second) = (Subscriptions::default(), Subscriptions::default());
        let own = OWN_SUBSCRIPTION_BYTES / subscription_cost_bytes(1);
        assert!(fill(&mut first) >= own + 4);
        assert_eq!(fill(&mut second), own);
        // What the one gives back, the other may use.
        assert!((0..=255).filter(|byte| first.remove(&[*byte])).count() > own);
        assert!(fill(&mut second) >= 4);
        drop(second);
        assert!(budget.hold(4 * subscription_cost_bytes(1)).is_some());
    }

    #[test]
    fn one_connection_cannot_use_up_everything() {
        let budget = Budget::new(SUBSCRIPTION_BYTES);
        let mut subscriptions = Subscriptions::default();
        let kept = (0..u32::MAX).take_while(|number| subscriptions.add(&number.to_be_bytes(), &budget)).count();
        assert_eq!(kept, CONNECTION_SUBSCRIPTION_BYTES / subscription_cost_bytes(4));
        assert!(budget.hold(SUBSCRIPTION_BYTES - CONNECTION_SUBSCRIPTION_BYTES).is_some());
    }
    #[test]
    fn one_connection_can_use_its_part_to_the_last_byte() {
        // So many prefixes of so many bytes in all cost exactly the bound.
        let (prefixes, all_bytes) = (350_usize, 346_368_usize);
        assert_eq!(prefixes * FIXED_COST_BYTES + all_bytes * COST_BYTES_PER_BYTE, CONNECTION_SUBSCRIPTION_BYTES);
        let budget = Budget::new(SUBSCRIPTION_BYTES);
        let mut subscriptions = Subscriptions::default();
        for number in 0..prefixes {
            let mut prefix = number.to_be_bytes().to_vec();
            prefix.resize(all_bytes / prefixes + usize::from(number < all_bytes % prefixes), 0);
            assert!(subscriptions.add(&prefix, &budget), "{number}");
        }
        assert!(!subscriptions.add(b"", &budget));
    }
}
