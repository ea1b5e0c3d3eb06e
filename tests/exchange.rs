//! What waits for whom: random steps have the results of a plain model.
#![allow(clippy::expect_used, clippy::indexing_slicing, missing_docs)]

#[path = "../fuzz/properties/exchange/mod.rs"]
mod exchange;

use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_steps_have_the_results_of_a_plain_model(configuration in 0..6_u8, steps in vec(any::<[u8; 3]>(), 0..400)) {
        exchange::exchange(&[&[configuration][..], steps.as_flattened()].concat());
    }
}
