//! Medians and percentiles.

/// The middle one; the upper of two middle ones.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The least value that `percent` of all do not exceed, of delays in ns; in µs.
pub(crate) fn percentile_us(delays_ns: &mut [u64], percent: f64) -> f64 {
    delays_ns.sort_unstable();
    let rank = (delays_ns.len() as f64 * percent / 100.0).ceil() as usize;
    delays_ns.get(rank.saturating_sub(1)).map_or(f64::NAN, |&ns| ns as f64 / 1e3)
}
