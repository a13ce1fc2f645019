//! The bucket behind the token bucket and the leaky bucket: what has been used, draining at a rate.

use super::decision::{Decision, Intent, Lifetime, Outcome, Standing};
use super::units::{MAX_INTEGER, Micros, Millis, Rate, div_ceil, div_floor};

/// What a call asks for.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    /// Cost that the bucket takes at once.
    pub capacity: u64,
    /// How fast it drains.
    pub rate: Rate,
}

/// What is stored of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// When `used` was right.
    pub last: Micros,
    /// Parts that were in the bucket then, at least 1.
    pub used: u128,
    /// Parts that make one unit of cost, 1 to [`Bucket::MAX_SCALE`]: the denominator that keeps draining exact.
    pub scale: u64,
}

impl Bucket {
    /// The largest denominator. With amounts up to [`MAX_INTEGER`] every product stays within 117 bits.
    pub const MAX_SCALE: u64 = 1 << 63;
    /// The most parts that a bucket can hold.
    pub const fn max_used(scale: u64) -> u128 {
        MAX_INTEGER as u128 * scale as u128
    }

    /// The same bucket in a denominator that `rate` divides without a rest.
    ///
    /// A changed rate takes the least common multiple. Where that is out of bounds (a bucket driven through several
    /// awkward rates before it ran empty) the amount is rounded up to the new rate's own: by less than what
    /// drains in one microsecond, and never in favour of the caller.
    fn rescaled(self, rate: &Rate) -> Self {
        if self.scale == rate.micros {
            return self;
        }
        let factor = rate.micros / gcd(self.scale, rate.micros);
        match self.scale.checked_mul(factor) {
            Some(scale) if scale <= Self::MAX_SCALE => Self {
                used: self.used * factor as u128,
                scale,
                ..self
            },
            _ => {
                let whole = self.used / self.scale as u128 * rate.micros as u128;
                let rest = self.used % self.scale as u128 * rate.micros as u128;
                Self {
                    used: whole + div_ceil(rest, self.scale as u128),
                    scale: rate.micros,
                    ..self
                }
            }
        }
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Decides about `cost` at `now` as a token bucket: an allowed call goes on at once.
pub fn decide_token(
    state: Option<Bucket>,
    quota: &Quota,
    cost: u64,
    now: Micros,
    intent: Intent,
) -> Outcome<Bucket> {
    decide(state, quota, cost, now, intent).0
}

/// Decides about `cost` at `now` as a queue: an allowed call waits for what was in the bucket before it.
pub fn decide_leaky(
    state: Option<Bucket>,
    quota: &Quota,
    cost: u64,
    now: Micros,
    intent: Intent,
) -> Outcome<Bucket> {
    let (mut outcome, queued) = decide(state, quota, cost, now, intent);
    if outcome.decision.allowed {
        outcome.decision.wait = Some(queued);
    }
    outcome
}

/// The outcome, and how long what was in the bucket before takes to drain.
fn decide(
    state: Option<Bucket>,
    quota: &Quota,
    cost: u64,
    now: Micros,
    intent: Intent,
) -> (Outcome<Bucket>, Millis) {
    let rate = &quota.rate;
    let stored = match state {
        Some(bucket) => bucket.rescaled(rate),
        None => Bucket {
            last: now,
            used: 0,
            scale: rate.micros,
        },
    };
    let scale = stored.scale as u128;
    // Parts that drain in a microsecond. Saturated, it still empties any bucket in one.
    let drain = if stored.scale == rate.micros {
        rate.units
    } else {
        rate.units.saturating_mul(scale / rate.micros as u128)
    };

    let passed = now.since(stored.last);
    let drained = drain.saturating_mul(passed.unsigned_abs());
    // Standing still, the level is as it was and the waits reach back to the real now.
    let (last, level, standing) = if passed >= 0 {
        (now, stored.used.saturating_sub(drained), Standing::Onward)
    } else if drained <= stored.used {
        (stored.last, stored.used, Standing::Still)
    } else {
        (now, stored.used, Standing::Moved)
    };
    // An empty bucket needs no denominator but the rate's own.
    let (scale, drain) = if level == 0 {
        (rate.micros as u128, rate.units)
    } else {
        (scale, drain)
    };
    let ahead = last.since(now);
    let time_to_drain = |parts: u128| {
        let micros = div_ceil(parts, drain).min(i128::MAX as u128 / 2) as i128;
        let millis = div_ceil((ahead + micros) as u128, 1000);
        Millis::clamped(millis as i128)
    };

    let capacity = quota.capacity as u128 * scale;
    let wanted = level + cost as u128 * scale;
    let allowed = wanted <= capacity;
    let is_taken = allowed && intent == Intent::Take;
    let level_after = if is_taken { wanted } else { level };
    let reset = if level_after == 0 {
        Millis::ZERO
    } else {
        time_to_drain(level_after)
    };
    let decision = Decision {
        allowed,
        limit: quota.capacity,
        remaining: div_floor(capacity.saturating_sub(level_after), scale) as u64,
        wait: if allowed {
            Some(Millis::ZERO)
        } else {
            (cost <= quota.capacity).then(|| time_to_drain(wanted - capacity))
        },
        reset,
    };
    let next = (is_taken || standing == Standing::Moved).then_some(Bucket {
        last,
        used: level_after,
        scale: scale as u64,
    });
    let outcome = Outcome {
        decision,
        next,
        // Between the half that is allowed and nothing: a level that rises needs room, one that falls has too much.
        lifetime: Lifetime::with_slack(reset, 3),
    };
    let queued = if level == 0 {
        Millis::ZERO
    } else {
        time_to_drain(level)
    };
    (outcome, queued)
}
