//! The tests of [`comparison`]. The bench has no test harness of its own.

#![allow(missing_docs, clippy::unwrap_used)]

mod comparison;

use comparison::{Noise, Verdict, compare, median, range};

const BOUND: f64 = 1.10;

fn verdict(this: &[f64], other: &[f64]) -> Verdict {
    compare(this, other, BOUND).unwrap().verdict
}

#[test]
fn a_build_that_is_as_fast_is_within_the_bound() {
    assert_eq!(verdict(&[5.0, 5.1, 4.9], &[5.0, 5.0, 5.0]), Verdict::Within);
}

#[test]
fn a_build_that_is_faster_is_within_the_bound() {
    assert_eq!(verdict(&[2.0, 2.1, 2.05], &[5.0, 5.0, 5.1]), Verdict::Within);
}

#[test]
fn a_build_that_is_slower_in_each_round_is_beyond_the_bound() {
    assert_eq!(verdict(&[6.0, 6.1, 5.9], &[5.0, 5.0, 5.0]), Verdict::Beyond);
}

#[test]
fn a_median_at_the_bound_is_within_it() {
    assert_eq!(verdict(&[110.0, 110.0, 110.0], &[100.0, 100.0, 100.0]), Verdict::Within);
}

#[test]
fn a_range_wider_than_the_bound_is_noise() {
    // The median is 1.2, but one round says 0.9.
    assert_eq!(verdict(&[6.0, 4.5, 6.2], &[5.0, 5.0, 5.0]), Verdict::Noise(Noise::WideRange));
    // The median is within the bound. A change of the size of the bound would not be noticed.
    assert_eq!(verdict(&[4.5, 5.0, 5.5], &[5.0, 5.0, 5.0]), Verdict::Noise(Noise::WideRange));
}

#[test]
fn a_change_larger_than_its_wide_range_is_beyond_the_bound() {
    // The ratios are from 2.8 to 3.3, which are 18 % apart.
    assert_eq!(verdict(&[2.8, 3.0, 3.3], &[1.0, 1.0, 1.0]), Verdict::Beyond);
    // The ratios are from 1.2 to 1.5, which are 25 % apart: the range may be the whole change.
    assert_eq!(verdict(&[1.2, 1.3, 1.5], &[1.0, 1.0, 1.0]), Verdict::Noise(Noise::WideRange));
}

#[test]
fn builds_whose_figures_drift_into_each_other_are_noise() {
    // Each round says 1.12, but the machine became slower by a half meanwhile.
    assert_eq!(verdict(&[1.12, 1.40, 1.68], &[1.0, 1.25, 1.5]), Verdict::Noise(Noise::Overlap));
}

#[test]
fn a_build_is_not_blamed_where_its_median_alone_is_outside_the_other_range() {
    assert_eq!(verdict(&[1.13, 1.13, 1.0], &[1.0, 1.01, 0.93]), Verdict::Noise(Noise::Overlap));
}

#[test]
fn a_figure_that_is_no_number_is_noise() {
    assert_eq!(verdict(&[f64::NAN; 3], &[1.0; 3]), Verdict::Noise(Noise::WideRange));
    assert_eq!(verdict(&[0.0; 3], &[0.0; 3]), Verdict::Noise(Noise::WideRange));
}

#[test]
fn rounds_that_only_one_build_has_do_not_count() {
    assert_eq!(verdict(&[1.0, 1.0, 1.0, 9.0], &[1.0, 1.0, 1.0]), Verdict::Within);
    assert_eq!(compare(&[1.0], &[], BOUND), None);
}

#[test]
fn a_comparison_has_the_median_and_the_range_of_the_ratios() {
    let compared = compare(&[2.0, 4.0, 6.0], &[1.0, 1.0, 2.0], BOUND).unwrap();
    assert_eq!((compared.median, compared.range), (3.0, (2.0, 4.0)));
    assert_eq!(median(&[1.0, 4.0, 2.0, 3.0]), 3.0);
    assert_eq!(range(&[]), None);
}
