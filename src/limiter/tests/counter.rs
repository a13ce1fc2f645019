use proptest::prelude::*;

use super::model::{self, reply};
use super::step;
use crate::limiter::counter::{Counter, FEW, MAX_BUCKETS, Quota, Verdict, decide};
use crate::limiter::{Intent, MAX_INTEGER, Millis};
use crate::state::{Blob as _, Writer};

const WINDOWS: [i64; 4] = [1, 7, 60, 100];
const BUCKETS: [usize; 5] = [1, 2, 7, 10, 60];

#[derive(Clone, Debug)]
struct Call {
    step: i64,
    quota: Quota,
    cost: u64,
}

fn call() -> impl Strategy<Value = Call> {
    // One window and number of sub-windows most of the time, others now and then.
    let quota = (0..WINDOWS.len() * 5, 0..BUCKETS.len() * 5, 0..25_u64);
    let quota = quota.prop_map(|(window, buckets, max)| Quota {
        window: Millis(*WINDOWS.get(window).unwrap_or(&100)),
        max,
        buckets: *BUCKETS.get(buckets).unwrap_or(&10),
    });
    (step(100), quota, 1..5_u64).prop_map(|(step, quota, cost)| Call { step, quota, cost })
}

fn take(counter: &mut Counter, quota: &Quota, cost: u64, now: i64) -> Verdict {
    decide(counter, quota, cost, Millis(now), Intent::Take)
}

proptest! {
    #[test]
    fn equals_the_model(start in 0..10_000_i64, calls in prop::collection::vec(call(), 1..80)) {
        let mut model = model::Counter::default();
        let mut stored: Option<Counter> = None;
        let mut now = start;
        for Call { step, quota, cost } in calls {
            now = (now + step).max(0);
            let mut counter = stored.clone().unwrap_or_else(|| <Counter>::for_quota(&quota));
            let verdict = take(&mut counter, &quota, cost, now);
            let expected = model.call(
                quota.window.0.into(), quota.buckets as i128, quota.max.into(), cost.into(), now.into(),
            );
            prop_assert_eq!(reply(&verdict.decision), expected, "at {} {:?} {}", now, quota, cost);
            // What is not stored does not matter.
            if verdict.is_changed {
                prop_assert!(counter.counts()[0] > 0);
                stored = Some(counter.clone());
            }

            if let (false, Some(wait)) = (verdict.decision.allowed, verdict.decision.wait) {
                let left = stored.clone().unwrap_or(counter);
                prop_assert!(take(&mut left.clone(), &quota, cost, now + wait.0).decision.allowed);
                prop_assert!(!take(&mut left.clone(), &quota, cost, now + wait.0 - 1).decision.allowed);
            }
        }
    }

    #[test]
    fn room_makes_no_difference(calls in prop::collection::vec(call(), 1..40)) {
        let mut now = 1000;
        let mut large: Option<Counter> = None;
        let mut small: Option<Counter<FEW>> = None;
        for Call { step, mut quota, cost } in calls {
            now = (now + step).max(0);
            quota.buckets = quota.buckets.min(FEW - 1);
            let mut one = large.unwrap_or_else(|| Counter::for_quota(&quota));
            let mut other = small.unwrap_or_else(|| Counter::for_quota(&quota));
            let verdict = decide(&mut one, &quota, cost, Millis(now), Intent::Take);
            prop_assert_eq!(verdict, decide(&mut other, &quota, cost, Millis(now), Intent::Take));
            prop_assert_eq!(one.counts(), other.counts());
            (large, small) = (Some(one), Some(other));
        }
    }

    #[test]
    fn the_largest_amounts_do_not_overflow(
        max in prop_oneof![Just(MAX_INTEGER), 0..=MAX_INTEGER],
        cost in prop_oneof![Just(MAX_INTEGER), 1..=MAX_INTEGER],
        window in prop_oneof![Just(366 * Millis::DAY.0), 1..=366 * Millis::DAY.0],
        buckets in 1..=MAX_BUCKETS,
        times in prop::collection::vec(0..=MAX_INTEGER as i64, 1..6),
    ) {
        let mut quota = Quota { window: Millis(window), max, buckets };
        let mut counter = <Counter>::for_quota(&quota);
        for time in times {
            let decision = take(&mut counter, &quota, cost, time).decision;
            prop_assert!(decision.remaining <= max);
            quota.buckets = quota.buckets % MAX_BUCKETS + 1;
        }
    }
}

/// Allowed late in a sub-window, beside what is leaving; then time stands still at its start, where all of that counts again.
#[test]
fn an_estimate_above_the_largest_maximum_is_kept() {
    let mut quota = Quota {
        window: Millis(100),
        max: MAX_INTEGER,
        buckets: 1,
    };
    let mut counter = <Counter>::for_quota(&quota);
    assert!(take(&mut counter, &quota, MAX_INTEGER, 0).decision.allowed);
    assert!(
        take(&mut counter, &quota, MAX_INTEGER / 2, 150)
            .decision
            .allowed
    );
    quota.buckets = 2;
    assert!(take(&mut counter, &quota, 1, 99).is_changed);
    let both = MAX_INTEGER + MAX_INTEGER / 2;
    assert_eq!(counter.counts()[0], both);
    let mut bytes = vec![0; counter.encoded_len()];
    counter.write(&mut Writer::new(&mut bytes));
    assert_eq!(<Counter>::decode(&bytes), Some(counter));
}

/// The estimate errs, but a full window of requests never passes twice within one and the same sub-window's distance.
#[test]
fn a_burst_is_not_forgotten_before_it_leaves() {
    let quota = Quota {
        window: Millis(100),
        max: 10,
        buckets: 10,
    };
    let mut counter = <Counter>::for_quota(&quota);
    assert!(take(&mut counter, &quota, 10, 1000).decision.allowed);
    for now in 1000..1101 {
        assert!(
            !take(&mut counter, &quota, 1, now).decision.allowed,
            "{now}"
        );
    }
    assert!(take(&mut counter, &quota, 1, 1101).decision.allowed);
}

/// The end comes closer with every call of a sub-window, and with it the latest time at which the key may expire: an expiry at that very
/// time would have to move with each.
#[test]
fn the_expiry_stays_during_a_sub_window() {
    let quota = Quota {
        window: Millis(10_000),
        max: 100,
        buckets: 10,
    };
    let mut counter = <Counter>::for_quota(&quota);
    let first = take(&mut counter, &quota, 1, 1_000_000).lifetime;
    for now in [1_000_001, 1_000_500, 1_000_999] {
        let later = take(&mut counter, &quota, 1, now).lifetime;
        assert_eq!(Millis(now) + later.needed, Millis(1_000_000) + first.needed);
        assert!(first.slack.0 <= later.needed.0 / 2, "at {now}");
    }
}
