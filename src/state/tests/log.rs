use proptest::prelude::*;

use crate::limiter::sliding::{self, Log as _, MAX_COST, MAX_WINDOW, Quota, Tier};
use crate::limiter::tests::model::{self, Reply, reply};
use crate::limiter::tests::step;
use crate::limiter::{Intent, Millis};
use crate::state::log::{Change, HEADER_LEN, SLOT_LEN, View};

/// A key that holds a log, and the copy that a replica would have.
#[derive(Clone, Debug, Default)]
struct Key {
    bytes: Option<Vec<u8>>,
    replica: Vec<u8>,
    /// How often its length changed.
    resizes: usize,
}

impl Key {
    fn view(&self) -> Option<View<'_>> {
        self.bytes
            .as_deref()
            .map(|bytes| View::read(bytes).unwrap())
    }

    fn horizon(&self) -> Option<i128> {
        self.view().map(|view| view.horizon().0.into())
    }

    fn decide(&self, tiers: &[Tier], cost: u64, now: i64) -> sliding::Verdict {
        sliding::decide(&self.view(), &quota(tiers), cost, Millis(now), Intent::Take)
    }

    /// What the command does.
    fn call(&mut self, tiers: &[Tier], cost: u64, now: i64) -> Reply {
        let longest = quota(tiers).longest();
        let verdict = self.decide(tiers, cost, now);
        let change = match self.view() {
            Some(view) if verdict.decision.allowed => {
                Change::record(&view, verdict.shift, verdict.time, cost, longest).unwrap()
            }
            Some(view) if verdict.shift > Millis::ZERO => Change::shift(&view, verdict.shift),
            None if verdict.decision.allowed => Change::create(verdict.time, cost, longest),
            _ => return reply(&verdict.decision),
        };
        self.apply(&change);
        reply(&verdict.decision)
    }

    fn apply(&mut self, change: &Change) {
        let mut bytes = self.bytes.take().unwrap_or_default();
        if let Some(len) = change.new_len() {
            self.resizes += 1;
            change.gather(&mut bytes);
            bytes.resize(len, 0);
        }
        change.write(&mut bytes);
        match change.stretches() {
            None => self.replica = bytes.clone(),
            Some(stretches) => {
                for (start, len) in stretches {
                    let stretch = start..start + len;
                    // As SETRANGE does, where the string is shorter.
                    if self.replica.len() < stretch.end {
                        self.replica.resize(stretch.end, 0);
                    }
                    self.replica[stretch.clone()].copy_from_slice(&bytes[stretch]);
                }
            }
        }
        assert_eq!(self.replica, bytes);
        self.bytes = Some(bytes);
    }

    /// Times of all slots, oldest first, after the one that marks the start.
    fn is_sorted(&self) -> bool {
        let Some(view) = self.view() else { return true };
        let times = (1..view.used()).map(|i| view.time(i));
        times.is_sorted()
    }
}

fn quota(tiers: &[Tier]) -> Quota {
    let mut quota = Quota::new(tiers[0]);
    for tier in &tiers[1..] {
        assert!(quota.push(*tier));
    }
    quota
}

fn tier(window: i64, max: u64) -> Tier {
    Tier {
        window: Millis(window),
        max,
    }
}

#[derive(Clone, Debug)]
struct Call {
    step: i64,
    tiers: Vec<Tier>,
    cost: u64,
}

/// One to four tiers, of the windows given.
fn tiers(windows: &'static [i64], most: u64) -> impl Strategy<Value = Vec<Tier>> {
    let tier =
        (prop::sample::select(windows), 0..=most).prop_map(|(window, max)| tier(window, max));
    prop::collection::vec(tier, 1..=4)
}

fn calls(windows: &'static [i64], most: u64, longest: usize) -> impl Strategy<Value = Vec<Call>> {
    let call = (step(100), tiers(windows, most), 1..4_u64);
    let call = call.prop_map(|(step, tiers, cost)| Call { step, tiers, cost });
    prop::collection::vec(call, 1..longest)
}

fn run(start: i64, calls: Vec<Call>) -> Result<Key, TestCaseError> {
    let mut key = Key::default();
    let mut model = model::Sliding::default();
    let mut now = start;
    // The longest window that took: what the log has to remember for.
    let mut longest = 0;
    for Call { step, tiers, cost } in calls {
        now = (now + step).max(0);
        let horizon = key.horizon();
        let replied = key.call(&tiers, cost, now);
        let expected = model.call(&tiers, cost.into(), now.into(), horizon);
        prop_assert_eq!(replied, expected, "at {} {:?} {}", now, tiers, cost);
        prop_assert!(key.is_sorted());
        if let (Some(view), Some(bytes)) = (key.view(), &key.bytes) {
            // When it is read only tells where to look first.
            for hint in [0, now - 77, now, now + 13, now + 100_000] {
                prop_assert_eq!(View::read_at(bytes, Millis(hint)), Some(view));
            }
        }

        let [allowed, _, _, wait, _] = replied;
        if allowed == 0 && wait > 0 {
            let then = now + wait as i64;
            prop_assert!(key.decide(&tiers, cost, then).decision.allowed);
            prop_assert!(!key.decide(&tiers, cost, then - 1).decision.allowed);
        }
        if allowed == 1 {
            longest = longest.max(quota(&tiers).longest().window.0);
            prop_assert_eq!(key.horizon(), Some(longest.into()));
        }
    }
    Ok(key)
}

proptest! {
    #[test]
    fn equals_the_model(start in 0..1000_i64, calls in calls(&[100, 100, 100, 40, 7, 1], 12, 150)) {
        run(start, calls)?;
    }

    #[test]
    fn equals_the_model_while_windows_change(
        start in 0..1000_i64, calls in calls(&[1, 10, 50, 100, 1000], 15, 150),
    ) {
        run(start, calls)?;
    }

    #[test]
    fn long_logs_equal_the_model(calls in calls(&[400], 1000, 700)) {
        run(0, calls)?;
    }

    #[test]
    fn never_more_than_max_in_any_window(
        steps in prop::collection::vec(0..9_i64, 1..400), max in 1..30_u64, window in 1..80_i64,
    ) {
        let mut key = Key::default();
        let mut now = 0;
        let mut taken: Vec<(i64, u64)> = Vec::new();
        for (i, step) in steps.into_iter().enumerate() {
            now += step;
            let cost = 1 + i as u64 % 3;
            if key.call(&[tier(window, max)], cost, now)[0] == 1 {
                taken.push((now, cost));
            }
        }
        for (end, _) in &taken {
            let within = taken.iter().filter(|(time, _)| end - window < *time && time <= end);
            let sum: u64 = within.map(|(_, cost)| cost).sum();
            prop_assert!(sum <= max, "{sum} in the {window} ms up to {end}");
        }
    }

    #[test]
    fn costs_in_the_billions(
        calls in prop::collection::vec((0..40_i64, 1..=MAX_COST, 1..=MAX_COST, any::<bool>()), 1..80),
    ) {
        // One window, so that nothing is forgotten early: sums stay within 32 bits, cumulative costs do not.
        let mut key = Key::default();
        let mut model = model::Sliding::default();
        let mut now = 0;
        for (step, cost, max, full) in calls {
            now += step;
            let tiers = [tier(50, if full { MAX_COST } else { max })];
            let horizon = key.horizon();
            let expected = model.call(&tiers, cost.into(), now.into(), horizon);
            prop_assert_eq!(key.call(&tiers, cost, now), expected);
        }
    }

    /// A short window may see billions pass that a longer one remembers: its sum is kept within bounds, the short one exact.
    #[test]
    fn a_short_window_stays_exact_however_much_a_longer_one_holds(
        calls in prop::collection::vec((0..40_i64, 1..=MAX_COST, any::<bool>()), 1..80),
    ) {
        let mut key = Key::default();
        key.call(&[tier(10_000, MAX_COST)], 1, 0);
        let mut model = model::Sliding::default();
        model.call(&[tier(50, MAX_COST)], 1, 0, None);
        let mut now = 1;
        for (step, cost, long) in calls {
            now += step;
            if long {
                let decision = key.decide(&[tier(10_000, MAX_COST)], cost, now).decision;
                prop_assert!(decision.remaining <= MAX_COST);
            }
            let tiers = [tier(50, MAX_COST)];
            let replied = key.call(&tiers, cost, now);
            prop_assert_eq!(replied, model.call(&tiers, cost.into(), now.into(), None));
        }
    }

    #[test]
    fn no_bytes_are_dangerous(
        bytes in prop::collection::vec(any::<u8>(), 0..120), slots in 0..12_usize, framed in any::<bool>(),
        window in 1..=MAX_WINDOW.0, now in 0..=crate::limiter::MAX_INTEGER as i64, cost in 1..=MAX_COST,
    ) {
        let mut bytes = bytes;
        if framed {
            // Anything behind a sound beginning.
            bytes.resize(HEADER_LEN + slots * SLOT_LEN, 0x5A);
            bytes[..2].copy_from_slice(&[0xA2, 2]);
            bytes[8..14].copy_from_slice(&[0, 0, 100, 0, 0, 0]);
        }
        if let Some(view) = View::read(&bytes) {
            prop_assert!(bytes.len() >= HEADER_LEN + 2 * SLOT_LEN);
            let mut key = Key { bytes: Some(bytes.clone()), replica: bytes.clone(), ..Key::default() };
            let tiers = [tier(window, MAX_COST), tier(1, 3)];
            prop_assert!(view.newest().is_some());
            key.call(&tiers, cost, now);
            key.call(&tiers, cost, now.saturating_sub(5_000_000).max(0));
            prop_assert!(key.view().is_some());
        }
    }
}

#[test]
fn steady_traffic_moves_nothing() {
    let mut key = Key::default();
    for now in 0..1000 {
        key.call(&[tier(300, 1000)], 1, now);
    }
    let (len, resizes) = (key.bytes.as_ref().unwrap().len(), key.resizes);
    for now in 1000..100_000 {
        assert_eq!(key.call(&[tier(300, 1000)], 1, now)[0], 1);
    }
    assert_eq!(key.bytes.as_ref().unwrap().len(), len);
    assert_eq!(key.resizes, resizes);
}

#[test]
fn a_ring_grows_by_a_quarter_and_shrinks_again() {
    let mut key = Key::default();
    for now in 0..10_000 {
        key.call(&[tier(20_000, 1_000_000)], 1, now);
    }
    let full = key.view().unwrap().slots();
    assert!((10_001..=12_502).contains(&full), "{full}");
    assert!(key.resizes < 40, "{}", key.resizes);
    let before = key.resizes;
    let mut now = 10_000;
    while key.view().unwrap().slots() > 290 {
        now += 100;
        assert!(now < 200_000);
        key.call(&[tier(20_000, 1_000_000)], 1, now);
        let view = key.view().unwrap();
        let slots = view.slots();
        let live = (1..view.used())
            .filter(|i| view.time(*i).0 > now - 20_000)
            .count();
        assert!(
            slots < 64 || slots * 10 <= (live + 16 * 100) * 15,
            "{slots} for {live}"
        );
    }
    assert!(key.resizes - before < 40, "{}", key.resizes - before);
}

#[test]
fn a_limit_bounds_its_ring() {
    let mut key = Key::default();
    for now in 0..500 {
        key.call(&[tier(10, 5)], 1, now);
    }
    assert_eq!(key.view().unwrap().slots(), 1 + 5);
}

#[test]
fn times_far_from_the_base_are_counted_from_a_new_one() {
    let mut key = Key::default();
    let month = MAX_WINDOW.0;
    let tiers = [tier(month, 3)];
    for now in (0..40).map(|i| i * (month / 2)) {
        assert_eq!(key.call(&tiers, 1, now)[0], 1, "{now}");
        assert_eq!(key.call(&tiers, 3, now)[0], 0, "{now}");
    }
    // Idle for ten years.
    let later = 20 * month + 3_660 * Millis::DAY.0;
    assert_eq!(key.call(&tiers, 3, later), [1, 3, 0, 0, month.into()]);
}

/// A call with a long window that is denied writes nothing, yet the log has to keep what denies it.
#[test]
fn a_longer_window_is_remembered_though_it_is_only_ever_denied() {
    let mut key = Key::default();
    let (long, short) = ([tier(60_000, 2)], [tier(1000, 9)]);
    assert_eq!(key.call(&long, 1, 1_000_000)[0], 1);
    assert_eq!(key.call(&short, 2, 1_060_000)[0], 1);
    assert_eq!(key.call(&short, 2, 1_100_000)[0], 1);
    assert_eq!(key.call(&long, 1, 1_119_000), [0, 2, 0, 41_000, 41_000]);
    assert_eq!(key.call(&short, 1, 1_120_000)[0], 1);
    assert_eq!(key.call(&long, 1, 1_120_001)[0], 0);
}

#[test]
fn the_oldest_request_is_no_spare_slot() {
    let mut key = Key::default();
    for now in [5, 5, 9, 12, 40, 60] {
        key.call(&[tier(30, 100)], 1, now);
    }
    assert_eq!(key.view().unwrap().oldest(), Millis(40));
    let mut key = Key::default();
    key.call(&[tier(30, 100)], 1, 7);
    assert_eq!(key.view().unwrap().oldest(), Millis(7));
}

#[test]
fn the_layout_does_not_change() {
    let mut key = Key::default();
    key.call(&[tier(1000, 2)], 3, 5);
    assert_eq!(key.bytes, None);
    key.call(&[tier(1000, 2)], 2, 5);
    let expected: [&[u8]; 3] = [
        &[0xA2, 2, 3, 0, 0, 0, 0, 0, 0, 0],
        &[0xE8, 3, 0, 0],
        // The mark, the request, a spare slot.
        &[
            1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ],
    ];
    assert_eq!(key.bytes, Some(expected.concat()));
}
