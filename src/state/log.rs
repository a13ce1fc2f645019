//! The log of `RL.SLIDING` as one string: a header, then a ring of slots.
//!
//! | bytes | field |
//! |---|---|
//! | 2..10 | base `i64` ms: what the slots' times are counted from |
//! | 10..14 | horizon `u32` ms: how far back the log remembers, the longest window that took from it |
//! | 14.. | n slots, n >= 2: time `u32` ms after base, cumulative cost `u32` |
//!
//! In ring order the slots are sorted by time, from 1 ms on. Calls in one millisecond share a slot. The oldest slot is no request: it only
//! marks where the sum starts, as the cost of any stretch is the difference of two cumulative costs. These wrap, as no stretch
//! that is ever asked for holds 2^32. What lies more than the horizon before the newest request is forgotten, though its slots
//! stay: a new slot overwrites the oldest as soon as the one after it is forgotten, so that steady traffic writes 8 bytes a call
//! and moves nothing. Where the ring starts is not stored: times fall there, and a few looks find it.
//!
//! Spare slots are zero. There are some only behind a ring that starts at the front, and they are taken before the oldest is overwritten.
//! A full ring that starts there grows by more of them, and again nothing moves. Only one that is full and starts elsewhere, or is much too
//! large, or has to remember for longer, is laid out anew, in order.

mod change;

use super::{Tag, field, plausible};
use crate::limiter::Millis;
use crate::limiter::sliding::{self, MAX_WINDOW};

pub use change::{Change, Full};

/// The version of this layout. (The first one, which was never released, had its spare slots in front.)
const VERSION: u8 = 2;
/// Bytes before the slots.
pub const HEADER_LEN: usize = 14;
/// Bytes of a slot.
pub const SLOT_LEN: usize = 8;

/// One slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    /// Milliseconds after the base, at least 1; 0 for a spare slot.
    time: u32,
    /// Cost of all requests up to this time, modulo 2^32.
    total: u32,
}

impl Slot {
    fn encode(self) -> [u8; SLOT_LEN] {
        (self.time as u64 | (self.total as u64) << 32).to_le_bytes()
    }

    fn decode(bytes: [u8; SLOT_LEN]) -> Self {
        let both = u64::from_le_bytes(bytes);
        Self {
            time: both as u32,
            total: (both >> 32) as u32,
        }
    }
}

/// What stands before the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    base: Millis,
    horizon: u32,
}

impl Header {
    fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..2].copy_from_slice(&[Tag::Sliding as u8, VERSION]);
        bytes[2..10].copy_from_slice(&self.base.0.to_le_bytes());
        bytes[10..14].copy_from_slice(&self.horizon.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        if !bytes.starts_with(&[Tag::Sliding as u8, VERSION]) {
            return None;
        }
        let header = Self {
            base: Millis(i64::from_le_bytes(field(bytes, 2)?)),
            horizon: u32::from_le_bytes(field(bytes, 10)?),
        };
        let sound = plausible(header.base) && (1..=MAX_WINDOW.0 as u32).contains(&header.horizon);
        sound.then_some(header)
    }

    /// Milliseconds from the base to `time`.
    fn offset(&self, time: Millis) -> i64 {
        (time - self.base).0
    }
}

/// A log, read in place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View<'a> {
    header: Header,
    slots: &'a [[u8; SLOT_LEN]],
    /// Where the ring starts: the place of the oldest slot.
    start: usize,
    /// How many slots are not spare; at least 1.
    used: usize,
}

impl<'a> View<'a> {
    /// Whether a log can have this many bytes.
    pub fn fits(len: usize) -> bool {
        len >= HEADER_LEN + 2 * SLOT_LEN && (len - HEADER_LEN).is_multiple_of(SLOT_LEN)
    }

    /// Whether `bytes` are a log, as far as its frame and header tell. The slots are not looked through on every call: whatever
    /// they hold, reading them ends and stays within them.
    pub fn is_log(bytes: &[u8]) -> bool {
        Self::fits(bytes.len()) && Header::decode(bytes).is_some()
    }

    /// The log in `bytes`; `None` for any other string.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        Self::read_at(bytes, Millis::ZERO)
    }

    /// The same, found sooner where requests came evenly up to `now`.
    pub fn read_at(bytes: &'a [u8], now: Millis) -> Option<Self> {
        if !Self::fits(bytes.len()) {
            return None;
        }
        let header = Header::decode(bytes)?;
        let (slots, _) = bytes.get(HEADER_LEN..)?.as_chunks::<SLOT_LEN>();
        let seam = seam(slots, header.horizon, header.offset(now));
        let (start, used) = match slots.get(seam) {
            None => (0, slots.len()),
            Some(slot) if Slot::decode(*slot).time == 0 => (0, seam),
            Some(_) => (seam, slots.len()),
        };
        Some(Self {
            header,
            slots,
            start,
            used,
        })
    }

    /// How many slots there are, spare ones included.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// How far back the log remembers.
    pub fn horizon(&self) -> Millis {
        Millis(self.header.horizon.into())
    }

    /// How many slots are not spare.
    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Time of the `i`-th oldest slot; `i` is below [`View::used`].
    #[cfg(test)]
    pub(super) fn time(&self, i: usize) -> Millis {
        self.header.base + Millis(self.slot(i).time.into())
    }

    /// Time of the oldest request that is not forgotten.
    pub fn oldest(&self) -> Millis {
        let first = self.first_after(self.header.base).min(self.used - 1);
        self.header.base + Millis(self.slot(first).time.into())
    }

    /// Where the `i`-th oldest slot lies.
    fn place(&self, i: usize) -> usize {
        let place = self.start + i;
        if place < self.slots.len() {
            place
        } else {
            place - self.slots.len()
        }
    }

    /// The `i`-th oldest slot; `i` is below `used`.
    fn slot(&self, i: usize) -> Slot {
        Slot::decode(self.slots[self.place(i)])
    }

    fn newest_slot(&self) -> Slot {
        self.slot(self.used - 1)
    }

    /// The first `i` of `from..used` for which `late` holds, or `used`. `late` holds from some slot on.
    ///
    /// It is mostly one of the oldest: the steps from `from` on double before the rest is halved.
    fn search(&self, from: usize, late: impl Fn(Slot) -> bool) -> usize {
        let (mut low, mut high, mut step) = (from, self.used, 0);
        while low + step < high {
            let probe = low + step;
            if late(self.slot(probe)) {
                high = probe;
                break;
            }
            low = probe + 1;
            step = 2 * step + 1;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if late(self.slot(middle)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// The oldest request after `time` that is not forgotten, as `i` of [`View::slot`]. The oldest slot of all is none.
    fn first_after(&self, time: Millis) -> usize {
        let forgotten = i64::from(self.newest_slot().time) - i64::from(self.header.horizon);
        let offset = self.header.offset(time).max(forgotten);
        self.search(1, |slot| i64::from(slot.time) > offset)
    }

    /// Cost held from behind the `i`-th oldest slot on.
    fn cost_behind(&self, i: usize) -> u32 {
        self.newest_slot().total.wrapping_sub(self.slot(i).total)
    }
}

impl sliding::Log for View<'_> {
    fn newest(&self) -> Option<Millis> {
        Some(self.header.base + Millis(self.newest_slot().time.into()))
    }

    fn cost_after(&self, time: Millis) -> u64 {
        self.cost_behind(self.first_after(time) - 1).into()
    }

    fn time_of_cost(&self, time: Millis, cost: u64) -> Option<Millis> {
        let first = self.first_after(time);
        let before = self.slot(first - 1).total;
        let found = self.search(first, |slot| {
            u64::from(slot.total.wrapping_sub(before)) >= cost
        });
        (found < self.used).then(|| self.header.base + Millis(self.slot(found).time.into()))
    }
}

/// How many slots, from the front on, were written since the ring last began there: the newest is the last of these, and behind it lies
/// the oldest, or a spare one. At least 1.
///
/// Every slot that is looked at costs more than all arithmetic, as most of a log lies in no cache. So the first look is where the
/// seam is if requests came evenly during the horizon up to `now` (as an offset from the base), the second one where it is by what the first
/// one tells, and then steps from there double before the rest is halved.
fn seam(slots: &[[u8; SLOT_LEN]], horizon: u32, now: i64) -> usize {
    let time = |place: usize| slots.get(place).map_or(0, |slot| Slot::decode(*slot).time);
    let first = time(0);
    // Written since, up to `low`; not so from `high` on.
    let (mut low, mut high) = (0, slots.len());
    let passed = now.saturating_sub(first.into()).clamp(0, horizon.into()) as u64;
    let mut guess = (passed * high as u64 / u64::from(horizon.max(1))) as usize;
    if (1..high).contains(&guess) {
        let seen = time(guess);
        if seen >= first {
            low = guess;
            let ahead = passed.saturating_sub(u64::from(seen - first));
            guess += (ahead * guess as u64 / u64::from(seen - first).max(1)) as usize;
        } else {
            high = guess;
            let behind = slots.len() - guess;
            // A spare slot tells nothing of the others.
            let share = if seen == 0 { 0 } else { first - seen };
            guess = (passed * behind as u64)
                .checked_div(share.into())
                .map_or(guess / 2, |guess| guess as usize);
        }
    }

    let guess = guess.clamp(low, high - 1);
    let mut step = 1;
    if time(guess) >= first {
        low = guess;
        while low + step < high {
            if time(low + step) < first {
                high = low + step;
                break;
            }
            low += step;
            step *= 2;
        }
    } else {
        high = guess;
        while low + step < high {
            if time(high - step) >= first {
                low = high - step;
                break;
            }
            high -= step;
            step *= 2;
        }
    }
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if time(middle) >= first {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}
