//! The states that are read and written as a whole.

use super::{Tag, VERSION, field, plausible};
use crate::limiter::bucket::Bucket;
use crate::limiter::counter::{Counter, MAX_COUNT};
use crate::limiter::fixed::Fixed;
use crate::limiter::{MAX_INTEGER, Micros, Millis};

/// A state that is read and written as a whole.
pub trait Blob: Sized {
    /// Whether a state of this kind can have so many bytes.
    fn fits(len: usize) -> bool;
    /// The state in `bytes`; `None` unless [`Blob::write`] can have made them.
    fn decode(bytes: &[u8]) -> Option<Self>;
    /// How many bytes it takes.
    fn encoded_len(&self) -> usize;
    /// Writes all of them.
    fn write(&self, to: &mut Writer);
}

/// Writes fields one after the other over what was there, and knows which of them changed it.
pub struct Writer<'a> {
    bytes: &'a mut [u8],
    next: usize,
    changed: (usize, usize),
}

impl<'a> Writer<'a> {
    /// Over `bytes`, from their start on.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Self {
            bytes,
            next: 0,
            changed: (0, 0),
        }
    }

    /// The next field.
    fn put<const N: usize>(&mut self, field: [u8; N]) {
        let start = self.next;
        self.next += N;
        let place = self
            .bytes
            .get_mut(start..)
            .and_then(|rest| rest.first_chunk_mut());
        if let Some(place) = place
            && *place != field
        {
            *place = field;
            let first = if self.changed.1 == 0 {
                start
            } else {
                self.changed.0
            };
            self.changed = (first, self.next);
        }
    }

    /// The stretch from the first to the last field that changed, as start and length.
    pub fn changed(&self) -> (usize, usize) {
        (self.changed.0, self.changed.1 - self.changed.0)
    }
}

/// The longest window of a fixed window or a counter.
const MAX_WINDOW: i64 = 366 * Millis::DAY.0;

impl Fixed {
    const LEN: usize = 26;
}

impl Blob for Fixed {
    fn fits(len: usize) -> bool {
        len == Self::LEN
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != Self::LEN || !bytes.starts_with(&[Tag::Fixed as u8, VERSION]) {
            return None;
        }
        let fixed = Self {
            start: Millis(i64::from_le_bytes(field(bytes, 2)?)),
            window: Millis(i64::from_le_bytes(field(bytes, 10)?)),
            count: u64::from_le_bytes(field(bytes, 18)?),
        };
        let sound = plausible(fixed.start)
            && (1..=MAX_WINDOW).contains(&fixed.window.0)
            && (1..=MAX_INTEGER).contains(&fixed.count);
        sound.then_some(fixed)
    }

    fn encoded_len(&self) -> usize {
        Self::LEN
    }

    fn write(&self, to: &mut Writer) {
        to.put([Tag::Fixed as u8, VERSION]);
        to.put(self.start.0.to_le_bytes());
        to.put(self.window.0.to_le_bytes());
        to.put(self.count.to_le_bytes());
    }
}

/// A bucket, stored under the tag of its algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tagged<const TAG: u8>(pub Bucket);

/// The bucket of a token bucket.
pub type Token = Tagged<{ Tag::Token as u8 }>;
/// The bucket of a leaky bucket.
pub type Leaky = Tagged<{ Tag::Leaky as u8 }>;

impl<const TAG: u8> Tagged<TAG> {
    const LEN: usize = 34;

    /// The state of `bucket`.
    pub const fn of(bucket: Bucket) -> Self {
        Self(bucket)
    }
}

impl<const TAG: u8> Blob for Tagged<TAG> {
    fn fits(len: usize) -> bool {
        len == Self::LEN
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != Self::LEN || !bytes.starts_with(&[TAG, VERSION]) {
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

    fn encoded_len(&self) -> usize {
        Self::LEN
    }

    fn write(&self, to: &mut Writer) {
        to.put([TAG, VERSION]);
        to.put(self.0.last.0.to_le_bytes());
        to.put(self.0.scale.to_le_bytes());
        to.put(self.0.used.to_le_bytes());
    }
}

/// Bytes of a counter before its counts.
const COUNTER_HEADER: usize = 20;

/// Bytes of each of `counts` counts in a counter of `len` bytes: 4, or 8 where one of them needs it. `None` for any other length.
fn count_width(len: usize, counts: usize) -> Option<usize> {
    let all = len.checked_sub(COUNTER_HEADER)?;
    [4, 8].into_iter().find(|width| counts * width == all)
}

impl<const ROOM: usize> Counter<ROOM> {
    /// Whether there is room for the counts of every counter of so many bytes.
    pub fn holds(len: usize) -> bool {
        len <= COUNTER_HEADER + 4 * ROOM
    }
}

impl<const ROOM: usize> Blob for Counter<ROOM> {
    fn fits(len: usize) -> bool {
        (COUNTER_HEADER + 2 * 4..=COUNTER_HEADER + 8 * ROOM).contains(&len) && len.is_multiple_of(4)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        if !bytes.starts_with(&[Tag::Counter as u8, VERSION]) {
            return None;
        }
        let buckets = usize::from(u16::from_le_bytes(field(bytes, 2)?));
        let sub_window = Millis(i64::from_le_bytes(field(bytes, 4)?));
        let latest = i64::from_le_bytes(field(bytes, 12)?);
        let width = count_width(bytes.len(), buckets + 1)?;
        let sound = (1..ROOM).contains(&buckets)
            && (1..=MAX_WINDOW).contains(&sub_window.0)
            && plausible(Millis(latest.checked_mul(sub_window.0)?));
        if !sound {
            return None;
        }
        let mut counter = Self::empty(sub_window, buckets);
        counter.latest = latest;
        let mut most = 0;
        for (i, count) in counter.counts_mut().iter_mut().enumerate() {
            let at = COUNTER_HEADER + i * width;
            *count = if width == 4 {
                u32::from_le_bytes(field(bytes, at)?).into()
            } else {
                u64::from_le_bytes(field(bytes, at)?)
            };
            most = most.max(*count);
        }
        let is_sound = counter.counts().first().is_some_and(|count| *count > 0)
            && most <= MAX_COUNT
            && counter.encoded_len() == bytes.len();
        is_sound.then_some(counter)
    }

    fn encoded_len(&self) -> usize {
        let bits = self.counts().iter().fold(0, |bits, count| bits | count);
        let is_wide = bits > u32::MAX.into();
        COUNTER_HEADER + self.counts().len() * if is_wide { 8 } else { 4 }
    }

    fn write(&self, to: &mut Writer) {
        to.put([Tag::Counter as u8, VERSION]);
        to.put((self.buckets as u16).to_le_bytes());
        to.put(self.sub_window.0.to_le_bytes());
        to.put(self.latest.to_le_bytes());
        let is_narrow = count_width(self.encoded_len(), self.counts().len()) == Some(4);
        for count in self.counts() {
            match u32::try_from(*count) {
                Ok(count) if is_narrow => to.put(count.to_le_bytes()),
                _ => to.put(count.to_le_bytes()),
            }
        }
    }
}
