//! Slow and obvious models, written from what docs/commands says and not from the code: exact fractions, lists of requests.

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

/// A sliding window counter: the counts of all sub-windows, and the estimate as a fraction.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    /// Sub-window length, how many make the window, count by number of the sub-window.
    state: Option<(i128, i128, std::collections::BTreeMap<i128, i128>)>,
}

impl Counter {
    fn estimate(&self, time: i128) -> BigRational {
        let Some((length, buckets, counts)) = &self.state else {
            return whole(0);
        };
        let index = time.div_euclid(*length);
        let count = |index: i128| counts.get(&index).copied().unwrap_or(0);
        let full: i128 = (0..*buckets).map(|age| count(index - age)).sum();
        let share = BigRational::new((length - time.rem_euclid(*length)).into(), (*length).into());
        whole(full) + whole(count(index - buckets)) * share
    }

    fn reset(&self, now: i128) -> i128 {
        // As good as new once no sub-window that counted anything lies in the window, not even partly.
        let Some((length, buckets, counts)) = &self.state else {
            return 0;
        };
        let last = counts.iter().rev().find(|(_, count)| **count > 0);
        last.map_or(0, |(index, _)| {
            ((index + buckets + 1) * length - now).max(0)
        })
    }

    pub fn call(&mut self, window: i128, buckets: i128, max: i128, cost: i128, now: i128) -> Reply {
        let length = (window + buckets - 1) / buckets;
        let mut time = now;
        if let Some((length, _, counts)) = &mut self.state
            && let Some((latest, _)) = counts.last_key_value()
        {
            let (latest, last) = (*latest, latest * *length);
            if last > now && last - now <= window {
                time = last;
            } else if last > now {
                let back = latest - now.div_euclid(*length);
                *counts = std::mem::take(counts)
                    .into_iter()
                    .map(|(index, count)| (index - back, count))
                    .collect();
            }
        }
        if let Some((old_length, old_buckets, _)) = &self.state
            && (*old_length, *old_buckets) != (length, buckets)
        {
            let carried = self.estimate(time).ceil().to_integer().to_i128().unwrap();
            if carried > 0 {
                let moved = [(time.div_euclid(length), carried)];
                self.state = Some((length, buckets, moved.into_iter().collect()));
            } else {
                // Nothing to move: a denied call leaves what there was, an allowed one replaces it.
                let mut fresh = Self::default();
                let reply = fresh.call(window, buckets, max, cost, time);
                if reply[0] == 1 {
                    *self = fresh;
                }
                return [
                    reply[0],
                    reply[1],
                    reply[2],
                    reply[3],
                    reply[4] + (time - now) * reply[0],
                ];
            }
        }
        let fits = |counter: &Self, time: i128| counter.estimate(time) + whole(cost) <= whole(max);
        let remaining = |counter: &Self| {
            let left = (whole(max) - counter.estimate(time)).floor().to_integer();
            left.to_i128().unwrap().max(0)
        };
        if fits(self, time) {
            let (_, _, counts) = self
                .state
                .get_or_insert_with(|| (length, buckets, Default::default()));
            *counts.entry(time.div_euclid(length)).or_insert(0) += cost;
            return [1, max, remaining(self), 0, self.reset(now)];
        }
        let wait = if cost > max {
            -1
        } else {
            (time..).find(|time| fits(self, *time)).unwrap() - now
        };
        [0, max, remaining(self), wait, self.reset(now)]
    }
}
