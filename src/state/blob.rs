//! The states of fixed size.

use super::{Tag, VERSION, field, plausible};
use crate::limiter::bucket::Bucket;
use crate::limiter::fixed::Fixed;
use crate::limiter::{MAX_INTEGER, Micros, Millis};

/// A state of fixed size.
pub trait Blob: Sized {
    /// What it is stored as.
    type Bytes: AsRef<[u8]> + AsMut<[u8]>;
    /// The first byte.
    const TAG: Tag;
    /// How many bytes it takes.
    const LEN: usize;

    /// The state in `bytes`; `None` unless [`Blob::encode`] can have made them.
    fn decode(bytes: &[u8]) -> Option<Self>;
    /// The bytes of this state.
    fn encode(&self) -> Self::Bytes;
}

/// Whether `bytes` begin as a state of this kind and have its length.
fn is_framed<B: Blob>(bytes: &[u8]) -> bool {
    bytes.len() == B::LEN && bytes.starts_with(&[B::TAG as u8, VERSION])
}

/// The longest window of a fixed window.
const MAX_FIXED_WINDOW: i64 = 366 * Millis::DAY.0;

impl Blob for Fixed {
    type Bytes = [u8; Self::LEN];
    const TAG: Tag = Tag::Fixed;
    const LEN: usize = 26;

    fn decode(bytes: &[u8]) -> Option<Self> {
        if !is_framed::<Self>(bytes) {
            return None;
        }
        let fixed = Self {
            start: Millis(i64::from_le_bytes(field(bytes, 2)?)),
            window: Millis(i64::from_le_bytes(field(bytes, 10)?)),
            count: u64::from_le_bytes(field(bytes, 18)?),
        };
        let sound = plausible(fixed.start)
            && (1..=MAX_FIXED_WINDOW).contains(&fixed.window.0)
            && (1..=MAX_INTEGER).contains(&fixed.count);
        sound.then_some(fixed)
    }

    fn encode(&self) -> Self::Bytes {
        let mut bytes = [0; Self::LEN];
        bytes[..2].copy_from_slice(&[Self::TAG as u8, VERSION]);
        bytes[2..10].copy_from_slice(&self.start.0.to_le_bytes());
        bytes[10..18].copy_from_slice(&self.window.0.to_le_bytes());
        bytes[18..26].copy_from_slice(&self.count.to_le_bytes());
        bytes
    }
}

/// The bucket of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(pub Bucket);

impl Blob for Token {
    type Bytes = [u8; Self::LEN];
    const TAG: Tag = Tag::Token;
    const LEN: usize = 34;

    fn decode(bytes: &[u8]) -> Option<Self> {
        if !is_framed::<Self>(bytes) {
            return None;
        }
        let bucket = Bucket {
            last: Micros(i64::from_le_bytes(field(bytes, 2)?)),
            scale: u64::from_le_bytes(field(bytes, 10)?),
            used: u128::from_le_bytes(field(bytes, 18)?),
        };
        let sound = (0..=Millis::MAX.to_micros().0).contains(&bucket.last.0)
            && (1..=Bucket::MAX_SCALE).contains(&bucket.scale)
            && (1..=Bucket::max_used(bucket.scale)).contains(&bucket.used);
        sound.then_some(Self(bucket))
    }

    fn encode(&self) -> Self::Bytes {
        let mut bytes = [0; Self::LEN];
        bytes[..2].copy_from_slice(&[Self::TAG as u8, VERSION]);
        bytes[2..10].copy_from_slice(&self.0.last.0.to_le_bytes());
        bytes[10..18].copy_from_slice(&self.0.scale.to_le_bytes());
        bytes[18..34].copy_from_slice(&self.0.used.to_le_bytes());
        bytes
    }
}
