//! A look: the verdict of a call, the state as it stands, and nothing stored.

use proptest::prelude::*;

use crate::limiter::bucket::{self, Bucket};
use crate::limiter::counter::{self, Counter};
use crate::limiter::fixed::{self, Fixed};
use crate::limiter::{Decision, Intent, MAX_INTEGER, Micros, Millis, Rate};

/// What a look at some state has to answer, given how the same call would be decided, and one that can never be.
fn is_look(look: &Decision, taken: &Decision, refused: &Decision) {
    assert!(!refused.allowed);
    assert_eq!((look.allowed, look.wait), (taken.allowed, taken.wait));
    assert_eq!(
        (look.remaining, look.reset),
        (refused.remaining, refused.reset)
    );
    assert_eq!(look.limit, taken.limit);
}

const HUGE: u64 = MAX_INTEGER;

proptest! {
    #[test]
    fn looks_are_the_verdict_and_the_state(
        count in 1..20_u64, max in 0..20_u64, cost in 1..10_u64, now in 0..500_i64, start in 0..500_i64,
    ) {
        let quota = fixed::Quota { window: Millis(100), max, offset: Millis::ZERO };
        let state = Some(Fixed { start: Millis(start), window: Millis(100), count });
        let decide = |cost, intent| fixed::decide(state, &quota, cost, Millis(now), intent).decision;
        is_look(&decide(cost, Intent::Look), &decide(cost, Intent::Take), &decide(HUGE, Intent::Take));

        let Some(rate) = Rate::per_second(30, 0) else { unreachable!() };
        let quota = bucket::Quota { capacity: max, rate };
        let state = Some(Bucket { last: Micros(start * 1000), used: u128::from(count) * 7, scale: 7 });
        for decide in [bucket::decide_token, bucket::decide_leaky] {
            let decide = |cost, intent| decide(state, &quota, cost, Micros(now * 1000), intent).decision;
            is_look(&decide(cost, Intent::Look), &decide(cost, Intent::Take), &decide(HUGE, Intent::Take));
        }

        let quota = counter::Quota { window: Millis(100), max, buckets: 10 };
        let mut state = <Counter>::for_quota(&quota);
        state.latest = start / 10;
        state.counts_mut()[0] = count;
        state.counts_mut()[10] = 3;
        let decide = |cost, intent| {
            let mut state = state.clone();
            counter::decide(&mut state, &quota, cost, Millis(now), intent).decision
        };
        is_look(&decide(cost, Intent::Look), &decide(cost, Intent::Take), &decide(HUGE, Intent::Take));
    }
}
