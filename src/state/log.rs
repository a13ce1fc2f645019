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

use super::{Tag, field, plausible};
use crate::limiter::Millis;
use crate::limiter::sliding::{self, MAX_WINDOW, Tier};

/// The version of this layout. (The first one, which was never released, had its spare slots in front.)
const VERSION: u8 = 2;
/// Bytes before the slots.
pub const HEADER_LEN: usize = 14;
/// Bytes of a slot.
pub const SLOT_LEN: usize = 8;
/// The most slots: a string ends at 512 MB.
const MAX_SLOTS: usize = (512 * 1024 * 1024 - HEADER_LEN) / SLOT_LEN;
/// Rings smaller than this are never laid out anew to save memory.
const SHRINK_FROM: usize = 64;
/// The time of a mark that never was a request.
const MARK_TIME: u32 = 1;
/// The time of the first request behind it.
const FIRST_TIME: u32 = 2;
/// Where a string grows up to this many bytes all of it is sent: a server that lengthens one keeps up to as much again to spare.
const SENT_WHOLE: usize = 4 * 1024 * 1024;

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
    /// One slot is written in place.
    Put {
        place: usize,
        slot: Slot,
    },
    /// Spare slots are added at the end, and the first of them is written.
    Grow {
        /// How many slots there are.
        from: usize,
        /// How many there will be.
        to: usize,
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
    /// How many slots stay, the mark included; none of a new log.
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
                base: time - Millis(FIRST_TIME.into()),
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
                    time: FIRST_TIME,
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
        let is_over = |slot: Slot| i64::from(slot.time) <= forgotten;
        let slot = u32::try_from(old.offset(time)).ok().map(|time| Slot {
            time,
            total: newest.total.wrapping_add(cost as u32),
        });
        // A call that looks back over less than the horizon does not see all that is held.
        let room = u32::MAX - cost as u32;
        let last_forgotten = || view.search(1, |slot| !is_over(slot)) - 1;
        let sees_all = change.header.horizon == window;
        let fits = sees_all || view.cost_behind(last_forgotten()) <= room;
        let remembers_longer = change.header.horizon > old.horizon;
        let most = if sees_all { longest.max } else { u64::MAX };
        let spares = view.slots() - view.used;
        if let Some(slot) = slot
            && fits
            && !remembers_longer
        {
            // To look at a slot amid the others costs as much as the rest of the call: where calls are frequent, not every one does.
            let is_rare = slot.time.saturating_sub(newest.time) > old.horizon / 16;
            let is_too_large = |place: usize| {
                view.slots() >= SHRINK_FROM
                    && (is_rare || place.is_multiple_of(16))
                    && (view.slots() * 3 / 10)
                        .checked_sub(spares)
                        .is_none_or(|dead| is_over(view.slot(dead)))
            };
            let put = |place| (!is_too_large(place)).then_some(SlotChange::Put { place, slot });
            let slots = if slot.time == newest.time {
                put(view.place(view.used - 1))
            } else if spares > 0 {
                put(view.used)
            } else if is_over(view.slot(1)) {
                put(view.start)
            } else if view.start == 0 && view.slots() < MAX_SLOTS {
                let from = view.slots();
                let to = (from + 1 + spare(from, most)).min(MAX_SLOTS);
                Some(SlotChange::Grow { from, to, slot })
            } else {
                None
            };
            if let Some(slots) = slots {
                change.slots = slots;
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
        let joins = i64::from(newest.time) == old.offset(time) && mark + 1 < view.used;
        let keep = view.used - mark - usize::from(joins);
        if keep + 1 > MAX_SLOTS {
            return Err(Full);
        }
        // Times stay as they are until one does not fit.
        let rebase = if slot.is_some() {
            0
        } else if mark + 1 < view.used {
            i64::from(view.slot(mark + 1).time) - i64::from(FIRST_TIME)
        } else {
            old.offset(time) - i64::from(FIRST_TIME)
        };
        change.header.base = old.base + Millis(rebase);
        change.header_changed = true;
        change.slots = SlotChange::Rebuild(Rebuild {
            start: view.start,
            drop: mark,
            keep,
            rebase,
            slots: (keep + 1 + spare(keep, most)).min(MAX_SLOTS),
            newest: Slot {
                time: u32::try_from(old.offset(time) - rebase).unwrap_or(u32::MAX),
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
        let slots = match &self.slots {
            SlotChange::None | SlotChange::Put { .. } => return None,
            SlotChange::Grow { to, .. } => to,
            SlotChange::Rebuild(rebuild) => &rebuild.slots,
        };
        Some(HEADER_LEN + slots * SLOT_LEN)
    }

    /// Brings the slots that stay to the front, in order, their times counted from the new base.
    pub fn gather(&self, bytes: &mut [u8]) {
        let SlotChange::Rebuild(rebuild) = &self.slots else {
            return;
        };
        let Some(slots) = slots_mut(bytes) else {
            return;
        };
        // What does not move is not touched: there can be millions.
        if rebuild.start > 0 {
            slots.rotate_left(rebuild.start.min(slots.len()));
        }
        if rebuild.drop > 0 {
            let end = (rebuild.drop + rebuild.keep).min(slots.len());
            slots.copy_within(rebuild.drop.min(end)..end, 0);
        }
        if rebuild.rebase != 0 {
            for bytes in slots.iter_mut().take(rebuild.keep) {
                let slot = Slot::decode(*bytes);
                let time = i64::from(slot.time) - rebuild.rebase;
                let time = u32::try_from(time).unwrap_or(0).max(MARK_TIME);
                *bytes = Slot { time, ..slot }.encode();
            }
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
            SlotChange::Put { place, slot }
            | SlotChange::Grow {
                from: place, slot, ..
            } => {
                if let Some(bytes) = slots.get_mut(*place) {
                    *bytes = slot.encode();
                }
            }
            SlotChange::Rebuild(rebuild) => {
                let mark = Slot {
                    time: MARK_TIME,
                    total: 0,
                };
                let kept = rebuild.keep.max(1);
                if rebuild.keep == 0 {
                    slots[0] = mark.encode();
                }
                if let Some((newest, spares)) =
                    slots.get_mut(kept..).and_then(<[_]>::split_first_mut)
                {
                    *newest = rebuild.newest.encode();
                    spares.fill([0; SLOT_LEN]);
                }
            }
        }
    }

    /// The stretches of the string that [`Change::write`] writes, as start and length; `None` for all of it.
    pub fn stretches(&self) -> Option<impl Iterator<Item = (usize, usize)>> {
        const NOTHING: (usize, usize) = (0, 0);
        let at = |place: usize| HEADER_LEN + place * SLOT_LEN;
        let [slot, end] = match &self.slots {
            SlotChange::None => [NOTHING; 2],
            SlotChange::Put { place, .. } => [(at(*place), SLOT_LEN), NOTHING],
            SlotChange::Grow { to, .. } if at(*to) <= SENT_WHOLE => return None,
            // A server fills up with zeros what lies before.
            SlotChange::Grow { from, to, .. } => [(at(*from), SLOT_LEN), (at(*to) - 1, 1)],
            SlotChange::Rebuild(_) => return None,
        };
        let header = if self.header_changed {
            (0, HEADER_LEN)
        } else {
            NOTHING
        };
        let written = [header, slot, end];
        Some(written.into_iter().filter(|stretch| *stretch != NOTHING))
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

/// Spare slots for a log that holds `live` requests of which there can be at most `max`: a quarter, more of a short one, which
/// doubles soon.
fn spare(live: usize, max: u64) -> usize {
    let most = usize::try_from(max).unwrap_or(usize::MAX);
    let share = if live < 16 { 2 } else { 4 };
    (live / share + 1).min(most.saturating_sub(live))
}

fn slots_mut(bytes: &mut [u8]) -> Option<&mut [[u8; SLOT_LEN]]> {
    Some(bytes.get_mut(HEADER_LEN..)?.as_chunks_mut::<SLOT_LEN>().0)
}
