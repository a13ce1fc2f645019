//! The leaky bucket as what it is for: a queue whose output is evenly spaced.

use crate::limiter::bucket::{Bucket, Quota, decide_leaky};
use crate::limiter::{Intent, Micros, Rate};

/// Drives requests through one queue in faked time: a denied one sleeps its wait and asks again, an allowed one sleeps its
/// wait and does its work. Answers when each did its work, in milliseconds, in the order of asking.
fn drive(capacity: u64, rate: Rate, costs: &[u64]) -> Vec<i64> {
    let quota = Quota { capacity, rate };
    let mut state: Option<Bucket> = None;
    let mut now = 1_000_000;
    let mut work = Vec::new();
    for cost in costs {
        loop {
            let outcome = decide_leaky(state, &quota, *cost, Micros(now * 1000), Intent::Take);
            state = outcome.next.or(state);
            let wait = outcome.decision.wait.expect("it fits the queue").0;
            if outcome.decision.allowed {
                work.push(now + wait);
                break;
            }
            now += wait;
        }
    }
    work
}

#[test]
fn a_thousand_requests_leave_at_the_rate() {
    let work = drive(5, Rate::per_second(4, 0).unwrap(), &[1; 1000]);
    let expected: Vec<i64> = (0..1000).map(|i| 1_000_000 + i * 250).collect();
    assert_eq!(work, expected);
}

#[test]
fn an_odd_rate_does_not_drift() {
    // 7 in 3 seconds: each leaves when its turn has come, rounded up to a millisecond.
    let work = drive(
        9,
        Rate::per(7, crate::limiter::Millis(3000)).unwrap(),
        &[1; 1000],
    );
    let expected: Vec<i64> = (0..1000_i64)
        .map(|i| 1_000_000 + (i * 3000 + 6) / 7)
        .collect();
    assert_eq!(work, expected);
}

#[test]
fn mixed_costs_leave_in_order_each_after_what_was_before_it() {
    let costs: Vec<u64> = (0..1000).map(|i| [1, 3, 2, 5, 1, 4][i % 6]).collect();
    let work = drive(8, Rate::per_second(10, 0).unwrap(), &costs);
    let mut before = 0;
    for (i, (work, cost)) in work.iter().zip(&costs).enumerate() {
        assert_eq!(*work, 1_000_000 + before * 100, "request {i}");
        before += *cost as i64;
    }
}
