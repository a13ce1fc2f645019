//! How state lies in a string: a tag, a layout version, then fixed-width little-endian fields.
//!
//! | algorithm | bytes | layout after tag and version |
//! |---|---|---|
//! | fixed window | 26 | start `i64` ms, window `i64` ms, count `u64` |
//! | token bucket | 34 | last `i64` us, scale `u64`, used `u128` parts (`scale` parts are one unit) |
//! | sliding log | 22 + 8n | see [`log`] |
//!
//! Whatever is not exactly a state that we write is refused: it is somebody else's string.

mod blob;
pub mod log;

pub use blob::{Blob, Token};

use crate::limiter::fixed::Fixed;
use crate::limiter::{MAX_INTEGER, Millis};

/// The algorithm that a string belongs to: its first byte. None of these begins a text in UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Tag {
    /// `RL.FIXED`
    Fixed = 0xA1,
    /// `RL.SLIDING`
    Sliding = 0xA2,
    /// `RL.TOKEN`
    Token = 0xA3,
}

impl Tag {
    /// Every tag.
    pub const ALL: [Self; 3] = [Self::Fixed, Self::Sliding, Self::Token];

    /// Whether a state of any kind can have so many bytes.
    pub fn fits(len: usize) -> bool {
        len == Fixed::LEN || len == Token::LEN || log::View::fits(len)
    }

    /// Whose state `bytes` is, as far as its form tells; `None` for a string that is no limiter.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let holds = |tag: &Self| match tag {
            Self::Fixed => Fixed::decode(bytes).is_some(),
            Self::Sliding => log::View::is_log(bytes),
            Self::Token => Token::decode(bytes).is_some(),
        };
        Self::ALL.into_iter().find(holds)
    }
}

/// The version of every layout here.
const VERSION: u8 = 1;

/// Whether a stored point of time is one that a decision can have left: within the clock that arguments allow, moves included.
fn plausible(time: Millis) -> bool {
    time.0.unsigned_abs() <= 2 * MAX_INTEGER
}

/// The `N` bytes from `at`; `None` where the slice ends before.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests;
