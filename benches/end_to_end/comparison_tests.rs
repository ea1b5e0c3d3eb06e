//! The tests of [`comparison`]. The bench has no test harness of its own.

#![allow(missing_docs, clippy::unwrap_used)]

mod comparison;

use comparison::Verdict::{self, Beyond, Overlap, WideRange, Within};
use comparison::{compare, median, range};

const BOUND: f64 = 1.10;

/// What the rounds of this build and of the other one are, and what they tell.
const CASES: &[(&str, [f64; 3], [f64; 3], Verdict)] = &[
    ("a build that is as fast", [5.0, 5.1, 4.9], [5.0; 3], Within),
    ("a build that is faster", [2.0, 2.1, 2.05], [5.0, 5.0, 5.1], Within),
    ("a build that is slower in each round", [6.0, 6.1, 5.9], [5.0; 3], Beyond),
    ("a median at the bound", [110.0; 3], [100.0; 3], Within),
    ("a median of 1.2, and one round of 0.9", [6.0, 4.5, 6.2], [5.0; 3], WideRange),
    ("a range that would hide a change of the bound", [4.5, 5.0, 5.5], [5.0; 3], WideRange),
    ("ratios from 2.8 to 3.3, 18 % apart", [2.8, 3.0, 3.3], [1.0; 3], Beyond),
    ("ratios from 1.2 to 1.5, whose range may be the change", [1.2, 1.3, 1.5], [1.0; 3], WideRange),
    ("1.12 in each round of a machine that slows down", [1.12, 1.40, 1.68], [1.0, 1.25, 1.5], Overlap),
    ("only this median outside the other range", [1.13, 1.13, 1.0], [1.0, 1.01, 0.93], Overlap),
    ("no number", [f64::NAN; 3], [1.0; 3], WideRange),
    ("zero beside zero", [0.0; 3], [0.0; 3], WideRange),
];

#[test]
fn each_case_has_its_verdict() {
    for (case, this, other, verdict) in CASES {
        assert_eq!(compare(this, other, BOUND).unwrap().verdict, *verdict, "{case}");
    }
}

#[test]
fn rounds_that_only_one_build_has_do_not_count() {
    assert_eq!(compare(&[1.0, 1.0, 1.0, 9.0], &[1.0; 3], BOUND).unwrap().verdict, Within);
    assert_eq!(compare(&[1.0], &[], BOUND), None);
}

#[test]
fn a_comparison_has_the_median_and_the_range_of_the_ratios() {
    let compared = compare(&[2.0, 4.0, 6.0], &[1.0, 1.0, 2.0], BOUND).unwrap();
    assert_eq!((compared.median, compared.range), (3.0, (2.0, 4.0)));
    assert_eq!(median(&[1.0, 4.0, 2.0, 3.0]), 3.0);
    assert_eq!(range(&[]), None);
}
