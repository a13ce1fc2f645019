//! How often a command allowed, denied and failed.

use std::sync::atomic::{AtomicU64, Ordering};

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was allowed.
    Allowed,
    /// It was denied.
    Denied,
    /// It was answered by an error.
    Failed,
}

/// Counts of calls. For one writer at a time: atomic only to be read from anywhere.
#[derive(Debug, Default)]
pub struct Counts {
    allowed: AtomicU64,
    denied: AtomicU64,
    failed: AtomicU64,
}

impl Counts {
    /// All zero.
    pub const fn new() -> Self {
        Self {
            allowed: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    fn of(&self, outcome: Outcome) -> &AtomicU64 {
        match outcome {
            Outcome::Allowed => &self.allowed,
            Outcome::Denied => &self.denied,
            Outcome::Failed => &self.failed,
        }
    }

    /// Counts one more call.
    pub fn add(&self, outcome: Outcome) {
        let count = self.of(outcome);
        // Not `fetch_add`: a lock on the bus, where there is one writer only.
        count.store(
            count.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Relaxed,
        );
    }

    /// How many calls came to that.
    pub fn get(&self, outcome: Outcome) -> u64 {
        self.of(outcome).load(Ordering::Relaxed)
    }

    /// Back to zero.
    pub fn reset(&self) {
        for count in [&self.allowed, &self.denied, &self.failed] {
            count.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_is_counted_by_itself() {
        let counts = Counts::new();
        for outcome in [Outcome::Denied, Outcome::Allowed, Outcome::Denied] {
            counts.add(outcome);
        }
        let all = [Outcome::Allowed, Outcome::Denied, Outcome::Failed];
        assert_eq!(all.map(|outcome| counts.get(outcome)), [1, 2, 0]);
        counts.reset();
        assert_eq!(all.map(|outcome| counts.get(outcome)), [0; 3]);
    }
}
