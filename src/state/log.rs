//! The log of `RL.SLIDING` as one string: a header, then a ring of slots.
//!
//! | bytes | field |
//! |---|---|
//! | 2..10 | base `i64` ms: what the slots' times are counted from |
//! | 10..14 | horizon `u32` ms: how far back the log remembers, the longest window that took from it |
//! | 14.. | n slots, n >= 2: time `u32` ms after base, cumulative cost `u32` |
//!
//! In ring order the slots are sorted by time. Calls in one millisecond share a slot. The oldest slot only marks where the sum
//! starts: the cost of any stretch is the difference of two cumulative costs. These wrap, as no stretch that is ever asked
//! for holds 2^32. What lies more than the horizon before the newest request is forgotten, though its slots stay: a new
//! slot overwrites the oldest as soon as the one after it is forgotten, so that steady traffic writes 8 bytes a call and moves
//! nothing. Where the ring starts is not stored: times fall there, and a binary search finds it. Only a ring that is full,
//! or much too large, or has to remember for longer, is laid out anew: in order, behind spare slots of time 0.

use super::{Tag, VERSION, field, plausible};
use crate::limiter::Millis;
use crate::limiter::sliding::{self, MAX_WINDOW, Tier};

/// Bytes before the slots.
pub const HEADER_LEN: usize = 14;
/// Bytes of a slot.
pub const SLOT_LEN: usize = 8;
/// The most slots: a string ends at 512 MB.
const MAX_SLOTS: usize = (512 * 1024 * 1024 - HEADER_LEN) / SLOT_LEN;
/// Rings smaller than this are never laid out anew to save memory.
const SHRINK_FROM: usize = 64;

/// One slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    /// Milliseconds after the base; 0 for a spare slot.
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
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    header: Header,
    slots: &'a [[u8; SLOT_LEN]],
    /// Where the ring starts: the place of the oldest slot.
    start: usize,
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
        if !Self::fits(bytes.len()) {
            return None;
        }
        let header = Header::decode(bytes)?;
        let (slots, _) = bytes.get(HEADER_LEN..)?.as_chunks::<SLOT_LEN>();
        let first = Slot::decode(slots[0]).time;
        let start = slots.partition_point(|slot| Slot::decode(*slot).time >= first);
        Some(Self {
            header,
            slots,
            start: if start == slots.len() { 0 } else { start },
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

    /// Time of the `i`-th oldest slot; `i` is below [`View::slots`].
    #[cfg(test)]
    pub(super) fn time(&self, i: usize) -> Millis {
        self.header.base + Millis(self.slot(i).time.into())
    }

    /// Time of the oldest request that is not forgotten.
    pub fn oldest(&self) -> Millis {
        // Spare slots have the base's own time, and are no requests.
        let first = self.first_after(self.header.base).min(self.slots.len() - 1);
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

    /// The `i`-th oldest slot; `i` is below [`View::slots`].
    fn slot(&self, i: usize) -> Slot {
        Slot::decode(self.slots[self.place(i)])
    }

    fn newest_slot(&self) -> Slot {
        self.slot(self.slots.len() - 1)
    }

    /// The first `i` of `from..slots` for which `late` holds, or the number of slots. `late` holds from some slot on.
    fn search(&self, from: usize, late: impl Fn(Slot) -> bool) -> usize {
        let (mut low, mut high) = (from, self.slots.len());
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
        (found < self.slots.len()).then(|| self.header.base + Millis(self.slot(found).time.into()))
    }
}

/// What has to be written to a log. Nothing is, until it is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    header: Header,
    header_changed: bool,
    slots: SlotChange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotChange {
    None,
    /// One slot is overwritten in place.
    Put {
        place: usize,
        slot: Slot,
    },
    /// The ring is laid out anew.
    Rebuild(Rebuild),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rebuild {
    /// Where the ring starts now.
    start: usize,
    /// How many of the oldest slots are dropped; the next one becomes the mark.
    drop: usize,
    /// How many slots stay, the mark included.
    keep: usize,
    /// What is taken off the time of each.
    rebase: i64,
    /// How many slots there will be.
    slots: usize,
    /// The newest slot, after those kept.
    newest: Slot,
}

/// The log would outgrow a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Change {
    /// The first request of a new log.
    pub fn create(time: Millis, cost: u64, longest: Tier) -> Self {
        let window = longest.window.0 as u32;
        Self {
            header: Header {
                base: time - Millis(1),
                horizon: window,
            },
            header_changed: true,
            slots: SlotChange::Rebuild(Rebuild {
                start: 0,
                drop: 0,
                keep: 0,
                rebase: 0,
                slots: 2 + spare(1, longest.max),
                newest: Slot {
                    time: 1,
                    total: cost as u32,
                },
            }),
        }
    }

    /// Every request moves back by `shift`.
    pub fn shift(view: &View, shift: Millis) -> Self {
        let header = Header {
            base: view.header.base - shift,
            ..view.header
        };
        Self {
            header,
            header_changed: header != view.header,
            slots: SlotChange::None,
        }
    }

    /// Every request moves back by `shift`, then a request of `cost` is made at `time`, by a call that looks back over
    /// `longest` and had it allowed. `time` is not before the newest request.
    pub fn record(
        view: &View,
        shift: Millis,
        time: Millis,
        cost: u64,
        longest: Tier,
    ) -> Result<Self, Full> {
        let mut change = Self::shift(view, shift);
        let old = change.header;
        let window = longest.window.0 as u32;
        change.header.horizon = old.horizon.max(window);

        let newest = view.newest_slot();
        let forgotten = (i64::from(newest.time) - i64::from(old.horizon))
            .max(old.offset(time) - i64::from(change.header.horizon));
        let is_over = |slot: Slot| slot.time == 0 || i64::from(slot.time) <= forgotten;
        let slot = u32::try_from(old.offset(time)).ok().map(|time| Slot {
            time,
            total: newest.total.wrapping_add(cost as u32),
        });
        // A call that looks back over less than the horizon does not see all that is held.
        let room = u32::MAX - cost as u32;
        let last_forgotten = || view.search(1, |slot| !is_over(slot)) - 1;
        let fits = change.header.horizon == window || view.cost_behind(last_forgotten()) <= room;
        let remembers_longer = change.header.horizon > old.horizon;
        let is_too_large = view.slots() >= SHRINK_FROM && is_over(view.slot(view.slots() * 3 / 10));
        if let Some(slot) = slot
            && fits
            && !remembers_longer
            && !is_too_large
        {
            let place = if slot.time == newest.time {
                Some(view.place(view.slots() - 1))
            } else if is_over(view.slot(1)) {
                Some(view.start)
            } else {
                None
            };
            if let Some(place) = place {
                change.slots = SlotChange::Put { place, slot };
                return Ok(change);
            }
        }

        let mut mark = last_forgotten();
        if view.cost_behind(mark) > room {
            // Costs in the billions that calls with a shorter window took. The oldest are forgotten early.
            mark = view.search(mark + 1, |slot| {
                newest.total.wrapping_sub(slot.total) <= room
            });
        }
        let joins = i64::from(newest.time) == old.offset(time) && mark + 1 < view.slots();
        let keep = view.slots() - mark - usize::from(joins);
        let spare = if change.header.horizon == window {
            spare(keep, longest.max)
        } else {
            spare(keep, u64::MAX)
        };
        if keep + 1 > MAX_SLOTS {
            return Err(Full);
        }
        let base = if mark + 1 < view.slots() {
            i64::from(view.slot(mark + 1).time) - 1
        } else {
            old.offset(time) - 1
        };
        change.header.base = old.base + Millis(base);
        change.header_changed = true;
        change.slots = SlotChange::Rebuild(Rebuild {
            start: view.start,
            drop: mark,
            keep,
            rebase: base,
            slots: (keep + 1 + spare).min(MAX_SLOTS),
            newest: Slot {
                time: u32::try_from(old.offset(time) - base).unwrap_or(u32::MAX),
                total: newest.total.wrapping_add(cost as u32),
            },
        });
        Ok(change)
    }

    /// The horizon that the log will have.
    pub fn horizon(&self) -> Millis {
        Millis(self.header.horizon.into())
    }

    /// How long the string has to be instead, where the change asks for another length. Call [`Change::gather`] before it
    /// is made so long, and [`Change::write`] after.
    pub fn new_len(&self) -> Option<usize> {
        match &self.slots {
            SlotChange::Rebuild(rebuild) => Some(HEADER_LEN + rebuild.slots * SLOT_LEN),
            _ => None,
        }
    }

    /// Brings the slots that stay to the front, in order, their times counted from the new base.
    pub fn gather(&self, bytes: &mut [u8]) {
        let SlotChange::Rebuild(rebuild) = &self.slots else {
            return;
        };
        let Some(slots) = slots_mut(bytes) else {
            return;
        };
        slots.rotate_left(rebuild.start.min(slots.len()));
        let end = (rebuild.drop + rebuild.keep).min(slots.len());
        slots.copy_within(rebuild.drop.min(end)..end, 0);
        for (i, bytes) in slots.iter_mut().take(rebuild.keep).enumerate() {
            let slot = Slot::decode(*bytes);
            let time = if i == 0 {
                0
            } else {
                u32::try_from(i64::from(slot.time) - rebuild.rebase).unwrap_or(0)
            };
            *bytes = Slot { time, ..slot }.encode();
        }
    }

    /// Writes the change, into a string of the right length.
    pub fn write(&self, bytes: &mut [u8]) {
        if self.header_changed
            && let Some(header) = bytes.first_chunk_mut::<HEADER_LEN>()
        {
            *header = self.header.encode();
        }
        let Some(slots) = slots_mut(bytes) else {
            return;
        };
        match &self.slots {
            SlotChange::None => {}
            SlotChange::Put { place, slot } => {
                if let Some(bytes) = slots.get_mut(*place) {
                    *bytes = slot.encode();
                }
            }
            SlotChange::Rebuild(rebuild) => {
                let Some((newest, others)) = slots.split_last_mut() else {
                    return;
                };
                *newest = rebuild.newest.encode();
                let keep = rebuild.keep.min(others.len());
                let spare = others.len() - keep;
                let mark = match others.first() {
                    Some(mark) if keep > 0 => *mark,
                    _ => [0; SLOT_LEN],
                };
                others.copy_within(..keep, spare);
                if let Some(spares) = others.get_mut(..spare) {
                    spares.fill(mark);
                }
            }
        }
    }

    /// The stretches of the string that [`Change::write`] writes, as start and length; `None` for all of it.
    pub fn stretches(&self) -> Option<impl Iterator<Item = (usize, usize)>> {
        let slot = match &self.slots {
            SlotChange::None => None,
            SlotChange::Put { place, .. } => Some((HEADER_LEN + place * SLOT_LEN, SLOT_LEN)),
            SlotChange::Rebuild(_) => return None,
        };
        let header = self.header_changed.then_some((0, HEADER_LEN));
        Some(header.into_iter().chain(slot))
    }
}

/// Spare slots for a log that holds `live` requests of which there can be at most `max`.
fn spare(live: usize, max: u64) -> usize {
    let most = usize::try_from(max).unwrap_or(usize::MAX);
    (live / 4 + 1).min(most.saturating_sub(live))
}

fn slots_mut(bytes: &mut [u8]) -> Option<&mut [[u8; SLOT_LEN]]> {
    Some(bytes.get_mut(HEADER_LEN..)?.as_chunks_mut::<SLOT_LEN>().0)
}
