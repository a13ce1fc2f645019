use proptest::prelude::*;

use super::model::{self, millis, reply};
use super::step;
use crate::limiter::fixed::{self, Fixed, Quota};
use crate::limiter::{Intent, Millis, Outcome};

/// Windows and offsets that do and do not divide one another.
const WINDOWS: [i64; 5] = [1, 7, 60, 100, 3_600];
const OFFSETS: [i64; 4] = [0, 1, 25, 5_000];

fn decide(state: Option<Fixed>, quota: &Quota, cost: u64, now: Millis) -> Outcome<Fixed> {
    fixed::decide(state, quota, cost, now, Intent::Take)
}

#[derive(Clone, Debug)]
struct Call {
    step: i64,
    quota: Quota,
    cost: u64,
}

fn call() -> impl Strategy<Value = Call> {
    let quota = (0..WINDOWS.len() * 4, 0..OFFSETS.len() * 4, 0..12_u64);
    // One window and offset most of the time, others now and then.
    let quota = quota.prop_map(|(window, offset, max)| Quota {
        window: Millis(*WINDOWS.get(window).unwrap_or(&60)),
        max,
        offset: Millis(*OFFSETS.get(offset).unwrap_or(&0)),
    });
    (step(60), quota, 1..5_u64).prop_map(|(step, quota, cost)| Call { step, quota, cost })
}

proptest! {
    #[test]
    fn equals_the_model(start in 0..10_000_i64, calls in prop::collection::vec(call(), 1..80)) {
        let mut model = model::Fixed::default();
        let mut state: Option<Fixed> = None;
        let mut now = start;
        for Call { step, quota, cost } in calls {
            now = (now + step).max(0);
            let outcome = decide(state, &quota, cost, Millis(now));
            let expected = model.call(
                quota.window.0.into(), quota.max.into(), quota.offset.0.into(), cost.into(), now.into(),
            );
            prop_assert_eq!(reply(&outcome.decision), expected, "at {} {:?} {}", now, quota, cost);

            if let (false, Some(wait)) = (outcome.decision.allowed, outcome.decision.wait) {
                // What a denied call leaves: the state, moved or not.
                let left = outcome.next.or(state);
                prop_assert!(decide(left, &quota, cost, Millis(now) + wait).decision.allowed);
                prop_assert!(!decide(left, &quota, cost, Millis(now) + wait - Millis(1)).decision.allowed);
            }
            state = outcome.next.or(state);
        }
    }

    #[test]
    fn counts_up_to_the_largest_integer(cost in 1..=crate::limiter::MAX_INTEGER, max in 0..=crate::limiter::MAX_INTEGER) {
        let quota = Quota { window: Millis(10), max, offset: Millis::ZERO };
        let first = decide(None, &quota, cost, Millis(0));
        prop_assert_eq!(first.decision.allowed, cost <= max);
        let second = decide(first.next, &quota, cost, Millis(0));
        prop_assert_eq!(second.decision.allowed, 2 * cost <= max);
    }
}

#[test]
fn no_window_takes_more_than_max() {
    let quota = Quota {
        window: millis(10),
        max: 3,
        offset: millis(4),
    };
    let mut state = None;
    let mut taken = std::collections::BTreeMap::new();
    for now in 0..200 {
        let outcome = decide(state, &quota, 1, Millis(now));
        if outcome.decision.allowed {
            *taken.entry((now + 4) / 10).or_insert(0) += 1;
        }
        state = outcome.next.or(state);
    }
    assert_eq!(taken.len(), 21);
    assert!(taken.values().all(|count| *count == 3));
}
