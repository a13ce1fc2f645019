//! When a call is decided, and what follows for the expiry of its key.

use crate::limiter::{Lifetime, Micros, Millis};
use crate::server::Call;

/// The two clocks of a call: the one it is decided by, and the server's, which keys expire by. They differ with `AT`.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// What the decision takes for now.
    pub now: Micros,
    /// What the server's clock says.
    pub server: Millis,
    is_replay: bool,
}

impl Moment {
    /// As of `at`, or else of now.
    pub fn of(call: &Call, at: Option<Millis>) -> Self {
        let server = call.now();
        Self {
            now: at.map_or(server, Millis::to_micros),
            server: server.floor_millis(),
            is_replay: at.is_some(),
        }
    }

    fn needed(&self, lifetime: Lifetime) -> Millis {
        const LEAST_IN_REPLAY: Millis = Millis(1000);
        if self.is_replay {
            lifetime.needed.max(LEAST_IN_REPLAY)
        } else {
            lifetime.needed
        }
    }

    /// How long before its expiry a request was made that is `age` old, of a key that expires when its latest request stops to
    /// matter. `window` is what this call knows to matter.
    ///
    /// An `AT` is on another clock than the expiry. There the lifetime left has to do, which was whole seconds at least a moment ago.
    pub fn span(&self, age: Millis, expiry: Millis, window: Millis) -> Millis {
        let left = expiry - self.server;
        if !self.is_replay {
            left + age
        } else if left <= window {
            window
        } else {
            Millis(left.0.saturating_add(999) / 1000 * 1000)
        }
    }

    /// What the expiry has to become, given what it is; `None` if it can stay.
    ///
    /// The lifetime is counted on the server's clock. It may be up to half as long again, so the expiry seldom moves. An `AT`
    /// stands still while that clock goes on: a key lives at least a second then, or a burst could outlive it.
    pub fn expiry(&self, lifetime: Lifetime, current: Option<Millis>) -> Option<Millis> {
        let needed = self.needed(lifetime);
        let earliest = self.server + needed;
        let latest = earliest + Millis(needed.0 / 2);
        match current {
            Some(current) if earliest <= current && current <= latest => None,
            _ => Some((earliest + lifetime.slack).min(Millis::MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(server: i64, is_replay: bool) -> Moment {
        Moment {
            now: Micros(0),
            server: Millis(server),
            is_replay,
        }
    }

    #[test]
    fn an_expiry_stays_while_it_is_neither_too_early_nor_too_late() {
        let lifetime = Lifetime::with_slack(Millis(1000), 4);
        let now = moment(5000, false);
        for (current, expected) in [
            (None, Some(6500)),
            (Some(5999), Some(6500)),
            (Some(6000), None),
            (Some(6500), None),
            (Some(6501), Some(6500)),
        ] {
            assert_eq!(
                now.expiry(lifetime, current.map(Millis)),
                expected.map(Millis)
            );
        }
    }

    #[test]
    fn a_span_is_told_by_an_expiry() {
        let (window, expiry) = (Millis(1000), Millis(8000));
        assert_eq!(
            moment(5000, false).span(Millis(700), expiry, window),
            Millis(3700)
        );
        assert_eq!(
            moment(5003, true).span(Millis(700), expiry, window),
            Millis(3000)
        );
        assert_eq!(moment(7500, true).span(Millis(700), expiry, window), window);
    }

    #[test]
    fn a_replay_lives_a_second_at_least() {
        let lifetime = Lifetime::exact(Millis(1));
        assert_eq!(
            moment(5000, true).expiry(lifetime, None),
            Some(Millis(6000))
        );
        assert_eq!(
            moment(5000, false).expiry(lifetime, None),
            Some(Millis(5001))
        );
    }

    #[test]
    fn an_expiry_ends_with_the_clock() {
        let lifetime = Lifetime::with_slack(Millis::MAX, 4);
        let expiry = moment(5000, false).expiry(lifetime, None);
        assert_eq!(expiry, Some(Millis::MAX));
        assert_eq!(
            moment(5000, false).expiry(lifetime, expiry),
            Some(Millis::MAX)
        );
    }
}
