//! How state lies in a string: a tag, a layout version, then fixed-width little-endian fields.
//!
//! | algorithm | bytes | layout after tag and version |
//! |---|---|---|
//! | fixed window | 26 | start `i64` ms, window `i64` ms, count `u64` |
//! | token and leaky bucket | 34 | last `i64` us, scale `u64`, used `u128` parts (`scale` parts are one unit) |
//! | counter | 20 + 4(n + 1) | n `u16`, sub-window `i64` ms, number of the latest `i64`, its count `u32` and those of the n before it (all `u64` where one needs it) |
//! | sliding log | 14 + 8n | see [`log`] |
//!
//! Whatever is not exactly a state that we write is refused: it is somebody else's string.

mod blob;
pub mod log;

pub use blob::{Blob, Leaky, Token, Writer};

use crate::limiter::counter::Counter;
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
    /// `RL.LEAKY`
    Leaky = 0xA4,
    /// `RL.COUNTER`
    Counter = 0xA5,
}

/// A string, as the state that it is.
#[derive(Debug)]
pub enum State<'a> {
    /// Of `RL.FIXED`.
    Fixed(Fixed),
    /// Of `RL.SLIDING`.
    Sliding(log::View<'a>),
    /// Of `RL.TOKEN`.
    Token(Token),
    /// Of `RL.LEAKY`.
    Leaky(Leaky),
    /// Of `RL.COUNTER`.
    Counter(Box<Counter>),
}

impl<'a> State<'a> {
    /// Whether a state of any kind can have so many bytes.
    pub fn fits(len: usize) -> bool {
        Fixed::fits(len) || Token::fits(len) || <Counter>::fits(len) || log::View::fits(len)
    }

    /// The state in `bytes`; `None` for a string that is no limiter.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        const FIXED: u8 = Tag::Fixed as u8;
        const SLIDING: u8 = Tag::Sliding as u8;
        const TOKEN: u8 = Tag::Token as u8;
        const LEAKY: u8 = Tag::Leaky as u8;
        const COUNTER: u8 = Tag::Counter as u8;
        match *bytes.first()? {
            FIXED => Fixed::decode(bytes).map(Self::Fixed),
            SLIDING => log::View::read(bytes).map(Self::Sliding),
            TOKEN => Token::decode(bytes).map(Self::Token),
            LEAKY => Leaky::decode(bytes).map(Self::Leaky),
            COUNTER => <Counter>::decode(bytes).map(|counter| Self::Counter(Box::new(counter))),
            _ => None,
        }
    }
}

/// The version of every layout but the log's.
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
