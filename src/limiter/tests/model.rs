//! Slow and obvious models, written from SPEC.md and not from the code: exact fractions, lists of requests.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{ToPrimitive, Zero};

use crate::limiter::sliding::Tier;
use crate::limiter::{Decision, MAX_INTEGER, Millis};

/// What a model answers: allowed, limit, remaining, wait_ms, reset_ms.
pub type Reply = [i128; 5];

pub fn reply(decision: &Decision) -> Reply {
    [
        decision.allowed.into(),
        decision.limit.into(),
        decision.remaining.into(),
        decision.wait.map_or(-1, |wait| wait.0.into()),
        decision.reset.0.into(),
    ]
}

/// A fixed window: every request that was allowed, with the window it was counted in.
#[derive(Clone, Debug, Default)]
pub struct Fixed {
    /// Start of the latest window, and cost counted in it.
    latest: Option<(i128, i128)>,
}

impl Fixed {
    pub fn call(&mut self, window: i128, max: i128, offset: i128, cost: i128, now: i128) -> Reply {
        let mut time = now;
        if let Some((start, _)) = &mut self.latest
            && *start > now
        {
            if *start - now <= window {
                time = *start;
            } else {
                *start = now;
            }
        }
        let mut start = -offset;
        start += (time - start).div_euclid(window) * window;
        let end = start + window;
        let count = match self.latest {
            Some((began, count)) if start <= began && began < end => count,
            _ => 0,
        };
        if count + cost <= max {
            self.latest = Some((start, count + cost));
            [1, max, max - count - cost, 0, end - now]
        } else {
            let wait = if cost > max { -1 } else { end - now };
            let reset = if count > 0 { end - now } else { 0 };
            [0, max, (max - count).max(0), wait, reset]
        }
    }
}

/// A bucket that drains: times in microseconds, amounts as fractions.
#[derive(Clone, Debug, Default)]
pub struct Bucket {
    state: Option<(i128, BigRational)>,
}

fn whole(value: i128) -> BigRational {
    BigRational::from_integer(value.into())
}

fn ceil_millis(micros: &BigRational) -> i128 {
    let millis = (micros / whole(1000)).ceil().to_integer();
    millis.min(BigInt::from(MAX_INTEGER)).to_i128().unwrap()
}

impl Bucket {
    /// `rate` is in units per microsecond. Also answers how long the level before takes to drain.
    pub fn call(
        &mut self,
        capacity: i128,
        rate: &BigRational,
        cost: i128,
        now: i128,
    ) -> (Reply, i128) {
        let (mut last, mut level) = self.state.clone().unwrap_or((now, whole(0)));
        if last > now {
            let horizon = &level / rate;
            if whole(last - now) > horizon {
                last = now;
                self.state = Some((last, level.clone()));
            }
        } else {
            level = (level - rate * whole(now - last)).max(whole(0));
            last = now;
        }
        let ahead = whole(last - now);
        let until_drained = |amount: &BigRational| {
            if amount.is_zero() {
                0
            } else {
                ceil_millis(&(&ahead + amount / rate))
            }
        };
        let queued = until_drained(&level);
        let remaining = |level: &BigRational| {
            let left = (whole(capacity) - level).floor().to_integer();
            left.to_i128().unwrap().max(0)
        };
        let wanted = &level + whole(cost);
        if wanted <= whole(capacity) {
            self.state = Some((last, wanted.clone()));
            let reset = until_drained(&wanted);
            ([1, capacity, remaining(&wanted), 0, reset], queued)
        } else {
            let wait = if cost > capacity {
                -1
            } else {
                until_drained(&(wanted - whole(capacity)))
            };
            let reset = until_drained(&level);
            ([0, capacity, remaining(&level), wait, reset], queued)
        }
    }
}

/// A log: every request that was allowed, as time and cost, never dropped.
#[derive(Clone, Debug, Default)]
pub struct Sliding {
    pub requests: Vec<(i128, i128)>,
}

impl Sliding {
    /// Requests more than `horizon` before the latest are forgotten.
    pub fn call(&mut self, tiers: &[Tier], cost: i128, now: i128, horizon: Option<i128>) -> Reply {
        let window = |tier: &Tier| i128::from(tier.window.0);
        let longest = tiers.iter().map(window).max().unwrap();
        let mut time = now;
        if let Some((last, _)) = self.requests.last().copied()
            && last > now
        {
            if last - now <= longest {
                time = last;
            } else {
                for (made, _) in &mut self.requests {
                    *made -= last - now;
                }
            }
        }
        let last = self.requests.last().map(|(made, _)| *made);
        if let (Some(last), Some(horizon)) = (last, horizon) {
            self.requests.retain(|(made, _)| *made > last - horizon);
        }
        let counted = |tier: &Tier, at: i128| -> i128 {
            let counts = |(made, _): &&(i128, i128)| at < made + window(tier);
            let requests = self.requests.iter().filter(counts);
            requests.map(|(_, cost)| cost).sum()
        };
        let spoken: Vec<(i128, i128, i128)> = tiers
            .iter()
            .map(|tier| {
                let max = i128::from(tier.max);
                let fits = |at: i128| counted(tier, at) + cost <= max;
                let wait = if cost > max {
                    -1
                } else if fits(time) {
                    0
                } else {
                    // It fits from when some request no longer counts.
                    let ends = self.requests.iter().map(|(made, _)| made + window(tier));
                    ends.filter(|end| fits(*end)).min().unwrap() - now
                };
                (max, (max - counted(tier, time)).max(0), wait)
            })
            .collect();

        let reset = |last: Option<i128>| last.map_or(0, |last| (last + longest - now).max(0));
        let order = |wait: i128| if wait == -1 { i128::MAX } else { wait };
        let mut chosen = spoken[0];
        for tier in &spoken[1..] {
            let (_, remaining, wait) = *tier;
            let is_denied = spoken.iter().any(|(_, _, wait)| *wait != 0);
            let is_better = if is_denied {
                order(wait) > order(chosen.2)
            } else {
                remaining < chosen.1
            };
            if is_better {
                chosen = *tier;
            }
        }
        let (max, remaining, wait) = chosen;
        if wait == 0 {
            self.requests.push((time, cost));
            [1, max, remaining - cost, 0, reset(Some(time))]
        } else {
            [0, max, remaining, wait, reset(last)]
        }
    }
}

/// The times that a test hands to the code under test, in milliseconds.
pub fn millis(time: i128) -> Millis {
    Millis(i64::try_from(time).unwrap())
}
