//! What every limiter answers.

use super::units::Millis;

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// To take the cost, if it is allowed.
    Take,
    /// To see whether it would be. Nothing is taken, and what remains is told as it stands.
    Look,
}

/// The answer to "may this go on?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the cost was taken or, for a look, would be.
    pub allowed: bool,
    /// The maximum or capacity that was applied.
    pub limit: u64,
    /// Cost that would still be accepted now.
    pub remaining: u64,
    /// Denied: the smallest wait after which the same call would be allowed, `None` if it never can.
    /// Allowed: how long to hold the request, zero but for the leaky bucket.
    pub wait: Option<Millis>,
    /// How long until the limiter is as good as new.
    pub reset: Millis,
}

impl Decision {
    /// As every limiter answers: allowed, limit, remaining, wait_ms, reset_ms.
    pub fn integers(&self) -> [i64; 5] {
        [
            self.allowed.into(),
            self.limit as i64,
            self.remaining as i64,
            self.wait.map_or(-1, |wait| wait.0),
            self.reset.0,
        ]
    }
}

/// How long a changed state has to be kept, and how much longer it may be kept to save moving the expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// From the decision's `now` until the state no longer matters.
    pub needed: Millis,
    /// What is added when the expiry has to be set; at most half of `needed`.
    pub slack: Millis,
}

impl Lifetime {
    /// To end exactly when the state no longer matters.
    pub const fn exact(needed: Millis) -> Self {
        Self {
            needed,
            slack: Millis::ZERO,
        }
    }

    /// With `eighths / 8` of `needed` as slack.
    pub const fn with_slack(needed: Millis, eighths: i64) -> Self {
        Self {
            needed,
            slack: Millis(needed.0 / 8 * eighths),
        }
    }
}

/// A decision, and the state to be stored if it changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome<S> {
    /// The answer.
    pub decision: Decision,
    /// The new state; `None` where nothing is to be written.
    pub next: Option<S>,
    /// How long `next` matters.
    pub lifetime: Lifetime,
}

/// Where the decision is made on the clock, given the state's last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The clock has moved on since the last time, or is at it.
    Onward,
    /// The last time lies a little ahead: time stands still there.
    Still,
    /// The last time lies further ahead than the horizon: the state is moved back, so that it is now.
    Moved,
}
