//! Time and amounts as types, so that milliseconds, microseconds and units per time cannot be mixed up.

use std::ops::{Add, Sub};

/// The largest integer that goes in or out (2^53 - 1): what a JavaScript client can hold.
pub const MAX_INTEGER: u64 = 9_007_199_254_740_991;

/// A point on the Unix clock, or a length of time, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(pub i64);

impl Millis {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest length that is ever reported or stored.
    pub const MAX: Self = Self(MAX_INTEGER as i64);
    /// One day.
    pub const DAY: Self = Self(86_400_000);

    /// `length`, or [`Millis::MAX`] where it is longer than that; below zero is zero.
    pub const fn clamped(length: i128) -> Self {
        if length <= 0 {
            Self::ZERO
        } else if length >= MAX_INTEGER as i128 {
            Self::MAX
        } else {
            Self(length as i64)
        }
    }

    /// The same point in microseconds. Points are at most [`MAX_INTEGER`] milliseconds, which fits.
    pub const fn to_micros(self) -> Micros {
        Micros(self.0.saturating_mul(1000))
    }
}

impl Add for Millis {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Millis {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// A point on the Unix clock in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Micros(pub i64);

impl Micros {
    /// The millisecond that this point lies in.
    pub const fn floor_millis(self) -> Millis {
        Millis(self.0.div_euclid(1000))
    }

    /// The first whole millisecond that is not before this point.
    pub const fn ceil_millis(self) -> Millis {
        Millis(self.0.div_euclid(1000) + (self.0.rem_euclid(1000) != 0) as i64)
    }

    /// How far this point lies after `earlier`, in microseconds; negative where it lies before.
    pub const fn since(self, earlier: Self) -> i128 {
        self.0 as i128 - earlier.0 as i128
    }
}

/// A speed, as the exact fraction `units / micros`: so many units in so many microseconds. Not reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Units that pass in `micros` microseconds; at least 1, below 2^73.
    pub units: u128,
    /// At least 1, below 2^45.
    pub micros: u64,
}

impl Rate {
    const MICROS_PER_SECOND: u64 = 1_000_000;

    /// `units / 10^decimals` per second; `None` for a rate of zero. `decimals` is at most 6.
    pub const fn per_second(units: u128, decimals: u32) -> Option<Self> {
        if units == 0 {
            return None;
        }
        Some(Self {
            units,
            micros: Self::MICROS_PER_SECOND * 10_u64.pow(decimals),
        })
    }

    /// `units` in every `length` of time; `None` for a rate of zero or no time.
    pub const fn per(units: u64, length: Millis) -> Option<Self> {
        if units == 0 || length.0 <= 0 {
            return None;
        }
        Some(Self {
            units: units as u128,
            micros: length.0 as u64 * 1000,
        })
    }
}

/// `a / b` rounded up. `b` is at least 1.
pub(super) const fn div_ceil(a: u128, b: u128) -> u128 {
    // Nearly always both fit 64 bits, where dividing is many times cheaper.
    if a <= u64::MAX as u128 && b <= u64::MAX as u128 {
        (a as u64).div_ceil(b as u64) as u128
    } else {
        a.div_ceil(b)
    }
}

/// `a / b` rounded down. `b` is at least 1.
pub(super) const fn div_floor(a: u128, b: u128) -> u128 {
    if a <= u64::MAX as u128 && b <= u64::MAX as u128 {
        (a as u64 / b as u64) as u128
    } else {
        a / b
    }
}
