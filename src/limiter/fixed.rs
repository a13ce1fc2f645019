//! Fixed window: a count for a window that lies on the clock.

use super::decision::{Decision, Intent, Lifetime, Outcome, Standing};
use super::units::Millis;

/// What a call asks for.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    /// Length of a window, 1 ms to 366 d.
    pub window: Millis,
    /// Cost that one window takes.
    pub max: u64,
    /// How far before the epoch's grid the windows lie.
    pub offset: Millis,
}

impl Quota {
    /// Start of the window that `time` lies in.
    fn window_start(&self, time: Millis) -> Millis {
        let on_grid = (time + self.offset).0.div_euclid(self.window.0) * self.window.0;
        Millis(on_grid) - self.offset
    }
}

/// What is stored of a fixed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// Start of the latest window (after a move: the time it was moved to).
    pub start: Millis,
    /// Length of that window.
    pub window: Millis,
    /// Cost taken in it, at least 1.
    pub count: u64,
}

/// Decides about `cost` at `now`.
pub fn decide(
    state: Option<Fixed>,
    quota: &Quota,
    cost: u64,
    now: Millis,
    intent: Intent,
) -> Outcome<Fixed> {
    let (state, standing) = match state {
        None => (None, Standing::Onward),
        Some(s) if s.start <= now => (Some(s), Standing::Onward),
        Some(s) if s.start - now <= quota.window => (Some(s), Standing::Still),
        Some(s) => (Some(Fixed { start: now, ..s }), Standing::Moved),
    };
    let time = match state {
        Some(s) if standing == Standing::Still => s.start,
        _ => now,
    };
    let start = quota.window_start(time);
    // Windows that began before this one no longer count. None began after it: `time` is not before the last.
    let count = state.filter(|s| s.start >= start).map_or(0, |s| s.count);
    let until_end = Millis::clamped((start + quota.window - now).0 as i128);

    let allowed = cost <= quota.max && count <= quota.max - cost;
    let is_taken = allowed && intent == Intent::Take;
    let count_after = if is_taken { count + cost } else { count };
    let reset = if count_after == 0 {
        Millis::ZERO
    } else {
        until_end
    };
    let decision = Decision {
        allowed,
        limit: quota.max,
        remaining: quota.max.saturating_sub(count_after),
        wait: if allowed {
            Some(Millis::ZERO)
        } else {
            (cost <= quota.max).then_some(until_end)
        },
        reset,
    };
    let next = if is_taken {
        Some(Fixed {
            start,
            window: quota.window,
            count: count_after,
        })
    } else {
        state.filter(|_| standing == Standing::Moved)
    };
    Outcome {
        decision,
        next,
        lifetime: Lifetime::exact(reset),
    }
}
