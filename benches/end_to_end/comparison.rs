//! Decides by figures alone whether this build of the gateway is slower than another one.

use serde::Serialize;

/// How a figure of this build compares with that of the other build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Verdict {
    /// The median of the ratios is within the bound.
    Within,
    /// This build is slower.
    Beyond,
    /// Noise: the ratios of the rounds differ by more than the bound, and by more than the least of them shows.
    WideRange,
    /// Noise: the median of one build is in the range of the other.
    Overlap,
}

/// The ratios of one figure of this build to that of the other build. Above 1, this build is worse.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Comparison {
    pub(crate) median: f64,
    pub(crate) range: (f64, f64),
    pub(crate) verdict: Verdict,
}

/// Compares two builds by what a figure cost in each round, where more is worse. The median may be at most `bound`.
/// Returns `None` if nothing was measured.
///
/// The builds are measured in turns, so that a ratio is taken within a round. A range that is wider than the bound
/// hides a change of its size. It does not hide a larger one: if each round is worse by more than the range is wide,
/// the row counts.
pub(crate) fn compare(this: &[f64], other: &[f64], bound: f64) -> Option<Comparison> {
    let ratios: Vec<_> = this.iter().zip(other).map(|(this, other)| this / other).collect();
    let ((least, most), median_ratio) = (range(&ratios)?, median(&ratios));
    let width = most / least;
    let verdict = if width.is_nan() || width > bound.max(least) {
        Verdict::WideRange
    } else if median_ratio <= bound {
        Verdict::Within
    } else if median(this) > range(other)?.1 && median(other) < range(this)?.0 {
        Verdict::Beyond
    } else {
        Verdict::Overlap
    };
    Some(Comparison { median: median_ratio, range: (least, most), verdict })
}

/// Returns the middle value, the upper one of two middle values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the least and the largest value, and `None` if there are none.
pub(crate) fn range(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().reduce(f64::min)?;
    Some((least, values.iter().copied().fold(least, f64::max)))
}
