//! Sliding window log: exact to the millisecond, several windows over one log.

use super::decision::{Decision, Intent, Lifetime, Standing};
use super::units::Millis;

/// The most pairs of window and maximum that one call can name.
pub const MAX_TIERS: usize = 8;
/// The largest maximum and cost: costs add up in 32 bits.
pub const MAX_COST: u64 = u32::MAX as u64;
/// The longest window: with it, times within a log fit 32 bits.
pub const MAX_WINDOW: Millis = Millis(31 * Millis::DAY.0);

/// One pair: at most `max` cost in any `window`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tier {
    /// 1 ms to [`MAX_WINDOW`].
    pub window: Millis,
    /// At most [`MAX_COST`].
    pub max: u64,
}

/// What a call asks for: one to [`MAX_TIERS`] pairs.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    tiers: [Tier; MAX_TIERS],
    count: usize,
}

impl Quota {
    /// With one pair.
    pub fn new(first: Tier) -> Self {
        let mut tiers = [Tier::default(); MAX_TIERS];
        tiers[0] = first;
        Self { tiers, count: 1 }
    }

    /// Adds a pair; false if there is no room for it.
    pub fn push(&mut self, tier: Tier) -> bool {
        let Some(place) = self.tiers.get_mut(self.count) else {
            return false;
        };
        *place = tier;
        self.count += 1;
        true
    }

    /// The pairs, in the order given.
    pub fn tiers(&self) -> &[Tier] {
        self.tiers.get(..self.count).unwrap_or(&self.tiers)
    }

    /// The pair with the longest window.
    pub fn longest(&self) -> Tier {
        let mut longest = self.tiers[0];
        for tier in self.tiers() {
            if tier.window > longest.window {
                longest = *tier;
            }
        }
        longest
    }
}

/// What a decision has to know of the requests made so far, whatever they are kept in.
pub trait Log {
    /// Time of the latest request; `None` without any.
    fn newest(&self) -> Option<Millis>;
    /// Cost of all requests made after `time`.
    fn cost_after(&self, time: Millis) -> u64;
    /// Time of the request with which the cost made after `time` comes to `cost` or more.
    fn time_of_cost(&self, time: Millis, cost: u64) -> Option<Millis>;
}

/// No log is an empty one.
impl<L: Log> Log for Option<L> {
    fn newest(&self) -> Option<Millis> {
        self.as_ref()?.newest()
    }

    fn cost_after(&self, time: Millis) -> u64 {
        self.as_ref().map_or(0, |log| log.cost_after(time))
    }

    fn time_of_cost(&self, time: Millis, cost: u64) -> Option<Millis> {
        self.as_ref()?.time_of_cost(time, cost)
    }
}

/// A decision, and what has to be done to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The answer.
    pub decision: Decision,
    /// How far every request in the log has to be moved back before anything else.
    pub shift: Millis,
    /// When an allowed request counts as made.
    pub time: Millis,
}

impl Verdict {
    /// How long a log matters that has to remember `horizon` before its newest request, which is at `newest`.
    pub fn lifetime(newest: Millis, horizon: Millis, now: Millis) -> Lifetime {
        Lifetime::with_slack(Millis::clamped((newest + horizon - now).0 as i128), 4)
    }
}

/// Decides about `cost` at `now`.
pub fn decide(log: &impl Log, quota: &Quota, cost: u64, now: Millis, intent: Intent) -> Verdict {
    let longest = quota.longest().window;
    let newest = log.newest();
    let (standing, ahead) = match newest {
        Some(newest) if newest > now && newest - now <= longest => (Standing::Still, newest - now),
        Some(newest) if newest > now => (Standing::Moved, newest - now),
        _ => (Standing::Onward, Millis::ZERO),
    };
    let shift = match standing {
        Standing::Moved => ahead,
        _ => Millis::ZERO,
    };
    let time = match standing {
        Standing::Still => now + ahead,
        _ => now,
    };

    // The tier to speak for: of those that deny the one with the longest wait, else the one with the least left.
    let mut denied: Option<(Tier, u64, Option<Millis>)> = None;
    let mut least: Option<(Tier, u64)> = None;
    for tier in quota.tiers() {
        let cutoff = time + shift - tier.window;
        let used = log.cost_after(cutoff);
        let remaining = tier.max.saturating_sub(used);
        if cost <= remaining {
            if least.is_none_or(|(_, other)| remaining < other) {
                least = Some((*tier, remaining));
            }
            continue;
        }
        let wait = if cost > tier.max {
            None
        } else {
            // Allowed again once so much has left that `cost` fits, which is when that request's window ends.
            let leaving = log
                .time_of_cost(cutoff, used - (tier.max - cost))
                .unwrap_or(time + shift);
            // Behind now, except in a log that nobody but an attacker writes.
            Some((leaving - shift + tier.window - now).max(Millis(1)))
        };
        let longer = denied.is_none_or(|(_, _, other)| match (wait, other) {
            (None, Some(_)) => true,
            (Some(wait), Some(other)) => wait > other,
            (_, None) => false,
        });
        if longer {
            denied = Some((*tier, remaining, wait));
        }
    }

    let reset_from = |newest: Millis| Millis::clamped((newest + longest - now).0 as i128);
    let reset_as_it_stands = newest.map_or(Millis::ZERO, |newest| reset_from(newest - shift));
    let decision = match (denied, least) {
        (Some((tier, remaining, wait)), _) => Decision {
            allowed: false,
            limit: tier.max,
            remaining,
            wait,
            reset: reset_as_it_stands,
        },
        (None, least) => {
            let (tier, remaining) = least.unwrap_or_default();
            let (taken, reset) = match intent {
                Intent::Take => (cost, reset_from(time)),
                Intent::Look => (0, reset_as_it_stands),
            };
            Decision {
                allowed: true,
                limit: tier.max,
                remaining: remaining.saturating_sub(taken),
                wait: Some(Millis::ZERO),
                reset,
            }
        }
    };
    Verdict {
        decision,
        shift,
        time,
    }
}
