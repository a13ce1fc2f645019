//! Sliding window counter: a count for each of some sub-windows, of fixed size whatever the traffic, approximate.

use super::decision::{Decision, Intent, Lifetime};
use super::units::{MAX_INTEGER, Millis, div_ceil, div_floor};

/// The most sub-windows that a window can be cut into.
pub const MAX_BUCKETS: usize = 256;

/// The most that one sub-window can hold. A call is allowed up to [`MAX_INTEGER`], but an estimate can be above what was allowed:
/// where time stands still it does so at the start of a sub-window, when the one that is leaving counts in full.
pub const MAX_COUNT: u64 = 4 * MAX_INTEGER;

/// What a call asks for.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    /// 1 ms to 366 d.
    pub window: Millis,
    /// Cost that one window takes, as far as the estimate goes.
    pub max: u64,
    /// How many sub-windows the window is cut into, 1 to [`MAX_BUCKETS`].
    pub buckets: usize,
}

impl Quota {
    /// Length of a sub-window.
    fn sub_window(&self) -> Millis {
        let buckets = self.buckets.max(1) as i64;
        Millis((self.window.0 + buckets - 1) / buckets)
    }
}

/// Room for the counts of any counter.
pub const ANY: usize = MAX_BUCKETS + 1;
/// Room for the counts of most: clearing all of [`ANY`] costs more than the decision.
pub const FEW: usize = 16;

/// Counts per sub-window. Sub-windows are numbered from the epoch on. There is `ROOM` for one more count than sub-windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter<const ROOM: usize = ANY> {
    /// Length of a sub-window, 1 ms to 366 d.
    pub sub_window: Millis,
    /// How many sub-windows make the window, 1 to `ROOM - 1`.
    pub buckets: usize,
    /// Number of the latest sub-window that counted anything.
    pub latest: i64,
    /// Its count, then those before it back to the one that lies only partly in the window: `buckets + 1` of them.
    /// All zero where there is no state.
    counts: [u64; ROOM],
}

impl<const ROOM: usize> Counter<ROOM> {
    /// Without any request.
    pub fn empty(sub_window: Millis, buckets: usize) -> Self {
        Self {
            sub_window,
            buckets: buckets.clamp(1, ROOM - 1),
            latest: 0,
            counts: [0; ROOM],
        }
    }

    /// As a call with `quota` would leave it if it took nothing.
    pub fn for_quota(quota: &Quota) -> Self {
        Self::empty(quota.sub_window(), quota.buckets)
    }

    /// The counts, latest first.
    pub fn counts(&self) -> &[u64] {
        self.counts.get(..=self.buckets).unwrap_or(&self.counts)
    }

    /// The counts, latest first.
    pub fn counts_mut(&mut self) -> &mut [u64] {
        // `buckets` is below `ROOM`.
        &mut self.counts[..=self.buckets.min(ROOM - 1)]
    }

    /// Start of the latest sub-window.
    pub fn last(&self) -> Millis {
        Millis(self.latest.saturating_mul(self.sub_window.0))
    }

    fn is_empty(&self) -> bool {
        self.counts[0] == 0
    }

    /// Makes sub-window `index`, which is not before the latest, the latest.
    fn advance(&mut self, index: i64) {
        let steps = usize::try_from(index - self.latest).unwrap_or(usize::MAX);
        let counts = self.counts_mut();
        let steps = steps.min(counts.len());
        counts.rotate_right(steps);
        if let Some(passed) = counts.get_mut(..steps) {
            passed.fill(0);
        }
        self.latest = index;
    }

    /// What is counted at `time`, which is not before the last time.
    fn at(&self, time: Millis) -> Estimate<'_> {
        let index = time.0.div_euclid(self.sub_window.0);
        let passed = usize::try_from(index - self.latest).unwrap_or(usize::MAX);
        let counts = self.counts();
        Estimate {
            sub_window: self.sub_window.0 as u128,
            // Those that are still in the window or leaving it; the sub-windows since the latest counted nothing.
            counts: counts
                .get(..counts.len().saturating_sub(passed))
                .unwrap_or(&[]),
            is_leaving: passed < counts.len(),
            index,
            left: self.sub_window.0 - time.0.rem_euclid(self.sub_window.0),
        }
    }
}

/// The estimate at a point of time: `whole + leaving * left / sub_window`.
struct Estimate<'a> {
    sub_window: u128,
    /// Latest first; the last one is leaving.
    counts: &'a [u64],
    is_leaving: bool,
    /// The sub-window that the time lies in.
    index: i64,
    /// How much of it is left, from 1 to all of it.
    left: i64,
}

impl Estimate<'_> {
    fn whole(&self) -> u128 {
        let whole = self.counts.len() - usize::from(self.is_leaving);
        let whole = self.counts.get(..whole).unwrap_or(&[]);
        // At most 257 counts of up to 2^55.
        whole.iter().sum::<u64>().into()
    }

    /// Rounded up.
    fn ceil(&self) -> u128 {
        let leaving = if self.is_leaving {
            u128::from(self.counts.last().copied().unwrap_or(0))
        } else {
            0
        };
        self.whole() + div_ceil(leaving * self.left as u128, self.sub_window)
    }

    /// When the estimate is down to `target`, which it is above.
    fn time_of(&self, target: u128) -> Millis {
        let mut whole = self.whole();
        let mut index = self.index;
        let leaving = self.counts.iter().rev();
        for (i, count) in leaving.enumerate() {
            let count = u128::from(*count);
            if i > 0 {
                index += 1;
                whole -= count;
            }
            // It falls evenly from whole + count to whole during this sub-window.
            if whole <= target && count > 0 {
                let left = div_floor((target - whole) * self.sub_window, count);
                return Millis((index + 1) * self.sub_window as i64 - left as i64);
            }
        }
        Millis((index + 1) * self.sub_window as i64)
    }
}

/// A decision, and whether the counter changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The answer.
    pub decision: Decision,
    /// Whether the counter has to be stored.
    pub is_changed: bool,
    /// For how long, then.
    pub lifetime: Lifetime,
}

/// Decides about `cost` at `now`, and changes the counter accordingly. It has room for the quota's sub-windows.
pub fn decide<const ROOM: usize>(
    counter: &mut Counter<ROOM>,
    quota: &Quota,
    cost: u64,
    now: Millis,
    intent: Intent,
) -> Verdict {
    let mut time = now;
    let mut is_changed = false;
    if !counter.is_empty() && counter.last() > now {
        if counter.last() - now <= quota.window {
            time = counter.last();
        } else {
            counter.latest = now.0.div_euclid(counter.sub_window.0);
            is_changed = true;
        }
    }
    let sub_window = quota.sub_window();
    if (counter.sub_window, counter.buckets) != (sub_window, quota.buckets) {
        let carried = if counter.is_empty() {
            0
        } else {
            counter.at(time).ceil()
        };
        *counter = Counter::empty(sub_window, quota.buckets);
        counter.latest = time.0.div_euclid(sub_window.0);
        counter.counts[0] = u64::try_from(carried).unwrap_or(MAX_COUNT).min(MAX_COUNT);
        is_changed = carried > 0;
    }
    if counter.is_empty() {
        counter.latest = time.0.div_euclid(sub_window.0);
    }

    let estimate = counter.at(time);
    let index = estimate.index;
    let used = estimate.ceil();
    let max = u128::from(quota.max);
    // The estimate is at most `max - cost` exactly where its ceiling is.
    let allowed = used + u128::from(cost) <= max;
    let wait = if allowed {
        Some(Millis::ZERO)
    } else {
        (cost <= quota.max).then(|| estimate.time_of(max - u128::from(cost)) - now)
    };
    if allowed && intent == Intent::Take {
        counter.advance(index);
        counter.counts[0] += cost;
        is_changed = true;
    }

    let used = counter.at(time).ceil();
    let reset = if counter.is_empty() {
        Millis::ZERO
    } else {
        let end = counter.last().0 + (counter.buckets as i64 + 1) * counter.sub_window.0;
        Millis::clamped(i128::from(end) - i128::from(now.0))
    };
    Verdict {
        decision: Decision {
            allowed,
            limit: quota.max,
            remaining: u64::try_from(max.saturating_sub(used)).unwrap_or(quota.max),
            wait,
            reset,
        },
        is_changed,
        // Less than the half that is allowed: the same end comes closer with each call.
        lifetime: Lifetime::with_slack(reset, 3),
    }
}
