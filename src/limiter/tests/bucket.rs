use num_rational::BigRational;
use proptest::prelude::*;

use super::model::{self, reply};
use super::step;
use crate::limiter::bucket::{self, Bucket, Quota};
use crate::limiter::{Intent, MAX_INTEGER, Micros, Millis, Outcome, Rate};

fn decide_token(state: Option<Bucket>, quota: &Quota, cost: u64, now: Micros) -> Outcome<Bucket> {
    bucket::decide_token(state, quota, cost, now, Intent::Take)
}

fn decide_leaky(state: Option<Bucket>, quota: &Quota, cost: u64, now: Micros) -> Outcome<Bucket> {
    bucket::decide_leaky(state, quota, cost, now, Intent::Take)
}

fn rates() -> Vec<Rate> {
    [
        Rate::per_second(1, 0),
        Rate::per_second(3, 0),
        Rate::per_second(5000, 0),
        Rate::per_second(3_000_000, 0),
        Rate::per_second(16_666_667, 6),
        Rate::per_second(5, 1),
        Rate::per(100, Millis(60_000)),
        Rate::per(7, Millis(13)),
        Rate::per(1, Millis(86_400_000)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn fraction(rate: &Rate) -> BigRational {
    BigRational::new(rate.units.into(), rate.micros.into())
}

#[derive(Clone, Debug)]
struct Call {
    step: i64,
    quota: Quota,
    cost: u64,
}

/// Calls that keep one rate for nine in ten, the others any.
fn calls(longest: usize) -> impl Strategy<Value = Vec<Call>> {
    let rates = rates();
    let count = rates.len();
    (0..count).prop_flat_map(move |usual| {
        let rates = rates.clone();
        let call = (
            step(1_000_000),
            0..count * 10,
            0..25_u64,
            1..6_u64,
            0..3_i64,
        )
            .prop_map(move |(step, rate, capacity, cost, part)| Call {
                // Steps of microseconds, of milliseconds, and of about what the rate needs.
                step: match part {
                    0 => step,
                    1 => step / 1000,
                    _ => step % 1000 * 1000,
                },
                quota: Quota {
                    capacity,
                    rate: *rates.get(rate).unwrap_or(&rates[usual]),
                },
                cost,
            });
        prop::collection::vec(call, 1..longest)
    })
}

proptest! {
    #[test]
    fn equals_the_model(start in 0..10_000_000_000_i64, calls in calls(80)) {
        let mut model = model::Bucket::default();
        let mut state: Option<Bucket> = None;
        let mut now = start;
        for Call { step, quota, cost } in calls {
            now = (now + step).max(0);
            let token = decide_token(state, &quota, cost, Micros(now));
            let leaky = decide_leaky(state, &quota, cost, Micros(now));
            let (expected, queued) = model.call(
                quota.capacity.into(), &fraction(&quota.rate), cost.into(), now.into(),
            );
            prop_assert_eq!(reply(&token.decision), expected, "at {} {:?} {}", now, quota, cost);

            let mut expected = expected;
            if expected[0] == 1 {
                expected[3] = queued;
            }
            prop_assert_eq!(reply(&leaky.decision), expected, "leaky at {} {:?} {}", now, quota, cost);
            prop_assert_eq!(leaky.next, token.next);

            if let (false, Some(wait)) = (token.decision.allowed, token.decision.wait) {
                let left = token.next.or(state);
                let then = Micros(now + wait.0 * 1000);
                prop_assert!(decide_token(left, &quota, cost, then).decision.allowed);
                prop_assert!(!decide_token(left, &quota, cost, Micros(then.0 - 1000)).decision.allowed);
            }
            state = token.next.or(state);
        }
    }

    #[test]
    fn no_amount_or_rate_overflows(
        capacity in prop_oneof![Just(MAX_INTEGER), 0..=MAX_INTEGER],
        cost in prop_oneof![Just(MAX_INTEGER), 1..=MAX_INTEGER],
        units in prop_oneof![Just(1), Just(MAX_INTEGER), 1..=MAX_INTEGER],
        decimals in 0..=6_u32,
        days in 1..=366_i64,
        times in prop::collection::vec(0..=MAX_INTEGER as i64, 1..6),
    ) {
        let per_second = Rate::per_second(u128::from(units) * 10_u128.pow(decimals) + 1, decimals);
        let per_days = Rate::per(units, Millis(days * Millis::DAY.0));
        let mut state = None;
        let mut model = model::Bucket::default();
        for (i, time) in times.into_iter().enumerate() {
            // One rate twice, so that there is a state to drain, then the other one.
            let Some(rate) = (if i % 4 < 2 { per_second } else { per_days }) else { continue };
            let quota = Quota { capacity, rate };
            let now = Millis(time).to_micros();
            let outcome = decide_token(state, &quota, cost, now);
            if i < 2 {
                let (expected, _) = model.call(capacity.into(), &fraction(&rate), cost.into(), now.0.into());
                prop_assert_eq!(reply(&outcome.decision), expected);
            }
            if let Some(next) = outcome.next {
                prop_assert!(next.used >= 1 && next.used <= Bucket::max_used(next.scale));
                prop_assert!(next.scale >= 1 && next.scale <= Bucket::MAX_SCALE);
            }
            state = outcome.next.or(state);
        }
    }

    /// Where no common denominator is in bounds, the amount may be rounded up, by what drains in a microsecond; never down.
    #[test]
    fn a_rate_change_never_forgets(
        used in 1..=1_000_000_u128, scale in 1..=Bucket::MAX_SCALE,
        units in 1..=1_000_000_u64, length in 1..=100_000_i64,
    ) {
        let Some(rate) = Rate::per(units, Millis(length)) else { unreachable!() };
        let quota = Quota { capacity: MAX_INTEGER, rate };
        let state = Bucket { last: Micros(0), used, scale };
        let cost = 1;
        let Some(next) = decide_token(Some(state), &quota, cost, Micros(0)).next else { unreachable!() };
        let before = BigRational::new(used.into(), scale.into());
        let after = BigRational::new(next.used.into(), next.scale.into()) - BigRational::from_integer(cost.into());
        prop_assert!(after >= before);
        prop_assert!(after - before < BigRational::new(1.into(), rate.micros.into()));
    }
}

#[test]
fn an_idle_bucket_takes_the_rate_s_own_denominator() {
    let quota = |rate| Quota { capacity: 10, rate };
    let slow = Rate::per(7, Millis(13)).unwrap();
    let other = Rate::per_second(3, 0).unwrap();
    let first = decide_token(None, &quota(slow), 1, Micros(0)).next.unwrap();
    let mixed = decide_token(Some(first), &quota(other), 1, Micros(0))
        .next
        .unwrap();
    assert_eq!(mixed.scale, 13_000_000);
    let idle = decide_token(Some(mixed), &quota(other), 1, Micros(10_000_000))
        .next
        .unwrap();
    assert_eq!(idle.scale, other.micros);
}
