//! What a call does to a log: which slots are written, and how it grows and is laid out anew.

use super::{HEADER_LEN, Header, SLOT_LEN, Slot, View};
use crate::limiter::Millis;
use crate::limiter::sliding::Tier;

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
