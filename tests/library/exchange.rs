//! What waits for whom: random steps have the results of a plain model.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::properties;

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_steps_have_the_results_of_a_plain_model(configuration in 0..6_u8, steps in vec(any::<[u8; 3]>(), 0..400)) {
        properties::exchange(&[&[configuration][..], steps.as_flattened()].concat());
    }
}
