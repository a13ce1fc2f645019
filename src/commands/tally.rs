//! What is counted of all calls: by command, and the keys that are denied most often.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::limiter::Ask;
use crate::limiter::Millis;
use crate::server::Error;
use crate::stats::{Counts, Outcome, Top};

/// The commands that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// `RL.FIXED`
    Fixed,
    /// `RL.SLIDING`
    Sliding,
    /// `RL.COUNTER`
    Counter,
    /// `RL.TOKEN`
    Token,
    /// `RL.LEAKY`
    Leaky,
    /// `RL.THROTTLE`, by either name.
    Throttle,
    /// `RL.ALL`
    All,
    /// `RL.PEEK`
    Peek,
}

impl Counted {
    /// All of them.
    pub const EACH: [Self; 8] = [
        Self::Fixed,
        Self::Sliding,
        Self::Counter,
        Self::Token,
        Self::Leaky,
        Self::Throttle,
        Self::All,
        Self::Peek,
    ];

    /// The command's name without `RL.`, in lower case.
    pub const fn name(self) -> &'static std::ffi::CStr {
        match self {
            Self::Fixed => c"fixed",
            Self::Sliding => c"sliding",
            Self::Counter => c"counter",
            Self::Token => c"token",
            Self::Leaky => c"leaky",
            Self::Throttle => c"throttle",
            Self::All => c"all",
            Self::Peek => c"peek",
        }
    }

    /// Whether it takes what it allows.
    pub const fn takes(self) -> bool {
        !matches!(self, Self::Peek)
    }

    /// Its counts.
    pub fn counts(self) -> &'static Counts {
        static COUNTS: [Counts; Counted::EACH.len()] =
            [const { Counts::new() }; Counted::EACH.len()];
        &COUNTS[self as usize]
    }

    /// Counts a call that came to `result`; `is_allowed` tells what it answered.
    pub fn count<T>(self, result: &Result<T, Error>, is_allowed: impl FnOnce(&T) -> bool) {
        self.counts().add(match result {
            Ok(answer) if is_allowed(answer) => Outcome::Allowed,
            Ok(_) => Outcome::Denied,
            Err(_) => Outcome::Failed,
        });
    }
}

/// Since when calls are counted, Unix milliseconds.
static SINCE: AtomicI64 = AtomicI64::new(0);

/// Since when calls are counted.
pub fn since() -> Millis {
    Millis(SINCE.load(Ordering::Relaxed))
}

/// Begins to count anew, keys too.
pub fn reset(now: Millis) {
    for counted in Counted::EACH {
        counted.counts().reset();
    }
    top().reset(now);
    SINCE.store(now.0, Ordering::Relaxed);
}

/// The keys denied most often. (What a panic may have left behind is still a sketch.)
pub fn top() -> MutexGuard<'static, Top> {
    static TOP: Mutex<Top> = Mutex::new(Top::empty());
    TOP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The key of `ask` was denied: counts it, and tells those who listen. No key is open.
pub fn denied(ask: &Ask) {
    let Ask { call, key, .. } = *ask;
    if let Some(name) = call.argument(key) {
        top().add(name, call.database(), ask.moment.server);
    }
    call.notify(key, c"rl.denied");
}
