//! The log of `RL.SLIDING` in a sorted set, the classic way: the score of a request is its time in milliseconds, its member a unique id.
//!
//! A script that does `ZREMRANGEBYSCORE`, `ZCARD`, `ZADD` and `EXPIRE` can work on the same key. A sorted set has no place for how far
//! back it has to remember; its expiry tells, as every request sets it to when that request stops to matter.

use ulid::Ulid;

use super::args::error;
use super::limiter::Ask;
use crate::limiter::sliding::{self, Log, MAX_WINDOW, Quota};
use crate::limiter::{Decision, Intent, Lifetime, MAX_INTEGER, Millis};
use crate::server::{Call, Entry, Error, SortedSet};

/// The most that one call can cost here: it adds so many members.
const MAX_COST: u64 = 1000;
/// Members that are moved at a time when the clock was changed.
const MOVED_AT_ONCE: i64 = 1000;
/// Scores this near to now are times in milliseconds, whatever the member says: hardly a rank, a time in seconds or a place on the map is.
const NEAR: Millis = Millis(366 * Millis::DAY.0);

/// The server refused one of its own commands.
const REFUSED: Error = Error::Message(
    c"ERR the server refused a command that logs in sorted sets need: ZADD, ZCARD, ZCOUNT, ZRANGE, ZREMRANGEBYSCORE, PEXPIREAT",
);

/// A log with at least one request.
struct SortedLog<'a> {
    set: &'a SortedSet<'a>,
    count: u64,
    oldest: Entry,
    newest: Entry,
}

/// When a request counts as made, given its score: whole milliseconds, rounded up.
fn time_of(entry: &Entry) -> Millis {
    Millis(entry.score.ceil() as i64)
}

fn ulid(member: &[u8]) -> Option<Ulid> {
    Ulid::from_string(std::str::from_utf8(member).ok()?).ok()
}

/// Whether a member is a request: ours is a ULID, a script's has a score that is a time, in a key that expires.
fn is_request(entry: &Entry, now: Millis, expires: bool) -> bool {
    let is_near = (entry.score - now.0 as f64).abs() <= NEAR.0 as f64;
    let is_time = entry.score.abs() <= MAX_INTEGER as f64;
    (is_near && expires) || (is_time && ulid(&entry.member).is_some())
}

impl<'a> SortedLog<'a> {
    fn read(set: &'a SortedSet<'a>, now: Millis, expires: bool) -> Result<Self, Error> {
        let count = set.count().ok_or(REFUSED)?;
        let ends = [set.entries(0, 0), set.entries(-1, -1)];
        let [Some(oldest), Some(newest)] = ends.map(|end| end.and_then(|mut end| end.pop())) else {
            return Err(REFUSED);
        };
        if [&oldest, &newest]
            .iter()
            .any(|end| !is_request(end, now, expires))
        {
            return error(
                c"WRONGTYPE key holds a sorted set that is not the log of a limiter: that expires, and its scores are times in milliseconds near now",
            );
        }
        Ok(Self {
            set,
            count,
            oldest,
            newest,
        })
    }
}

impl Log for SortedLog<'_> {
    fn newest(&self) -> Option<Millis> {
        Some(time_of(&self.newest))
    }

    fn cost_after(&self, time: Millis) -> u64 {
        // A server that cannot count denies.
        self.set.count_above(time.0).unwrap_or(u64::from(u32::MAX))
    }

    fn time_of_cost(&self, time: Millis, cost: u64) -> Option<Millis> {
        let before = self.count.saturating_sub(self.cost_after(time));
        let place = i64::try_from(before + cost.saturating_sub(1)).ok()?;
        self.set.entries(place, place)?.first().map(time_of)
    }
}

/// Looks up, decides, and writes what changed. `expiry` is when the key expires now, if it does.
pub fn decide(
    ask: &Ask,
    quota: &Quota,
    now: Millis,
    is_new: bool,
    expiry: Option<Millis>,
) -> Result<Decision, Error> {
    if ask.cost > MAX_COST {
        return error(c"ERR COST must be an integer from 1 to 1000 for a log in a sorted set");
    }
    let set = ask.call.sorted_set(ask.key).ok_or(Error::Arity)?;
    let log = if is_new {
        None
    } else {
        Some(SortedLog::read(&set, now, expiry.is_some())?)
    };
    let verdict = sliding::decide(&log, quota, ask.cost, now, ask.intent);
    if ask.intent == Intent::Take {
        let newest = log.as_ref().map(|log| &log.newest);
        write(ask, quota, now, &set, newest, &verdict, expiry).ok_or(REFUSED)?;
    }
    Ok(verdict.decision)
}

/// How far back the log has to remember, given its newest request and its expiry: at least over `window`.
fn horizon(
    ask: &Ask,
    window: Millis,
    now: Millis,
    newest: Option<&Entry>,
    expiry: Option<Millis>,
) -> Millis {
    let earlier = match (newest, expiry) {
        (None, _) => window,
        // It was made persistent, and nobody can tell.
        (Some(_), None) => MAX_WINDOW,
        (Some(newest), Some(expiry)) => ask.moment.span(now - time_of(newest), expiry, window),
    };
    earlier.clamp(window, MAX_WINDOW)
}

fn write(
    ask: &Ask,
    quota: &Quota,
    now: Millis,
    set: &SortedSet,
    newest: Option<&Entry>,
    verdict: &sliding::Verdict,
    expiry: Option<Millis>,
) -> Option<()> {
    let is_moved = verdict.shift > Millis::ZERO;
    if !verdict.decision.allowed && !is_moved {
        return Some(());
    }
    let horizon = horizon(ask, quota.longest().window, now, newest, expiry);
    if is_moved && let Some(newest) = newest {
        set.remove_up_to((time_of(newest) - horizon).0)?;
        shift(set, verdict.shift)?;
    }
    if verdict.decision.allowed {
        // First the new ones: a set that runs empty is gone, and its expiry with it.
        set.put(&members(ask, newest, verdict.time))?;
        if newest.is_some() {
            set.remove_up_to((verdict.time - horizon).0)?;
        }
    }
    // Exact, as it tells the horizon.
    let lifetime = Lifetime::exact(Millis::clamped((verdict.time + horizon - now).0.into()));
    match ask.moment.expiry(lifetime, None) {
        wanted if wanted == expiry => Some(()),
        wanted => set.expire_at(wanted?),
    }
}

/// The members for a request at `time`: ULIDs that are greater than the newest, if that is one.
fn members(ask: &Ask, newest: Option<&Entry>, time: Millis) -> Vec<Entry> {
    let now = time.0.unsigned_abs();
    let newest = newest.and_then(|newest| ulid(&newest.member));
    let fresh = || Ulid::from_parts(now, u128::from_le_bytes(ask.call.random()) >> 1);
    let mut next = match newest {
        Some(newest) if newest.timestamp_ms() >= now => {
            newest.increment().unwrap_or_else(|_| fresh())
        }
        _ => fresh(),
    };
    let mut members = Vec::with_capacity(ask.cost as usize);
    for _ in 0..ask.cost {
        members.push(Entry {
            member: next.to_string().into_bytes(),
            score: time.0 as f64,
        });
        next = next.increment().unwrap_or_else(|_| fresh());
    }
    members
}

/// Moves every request back.
fn shift(set: &SortedSet, shift: Millis) -> Option<()> {
    let count = i64::try_from(set.count()?).ok()?;
    let mut first = 0;
    // Moved from the oldest on, they keep their order, and with it their places.
    while first < count {
        let mut entries = set.entries(first, first + MOVED_AT_ONCE - 1)?;
        for entry in &mut entries {
            entry.score -= shift.0 as f64;
        }
        set.put(&entries)?;
        first += MOVED_AT_ONCE;
    }
    Some(())
}

/// What a log holds.
pub struct Summary {
    /// Of all requests.
    pub cost: i64,
    /// Time of the first.
    pub oldest: Millis,
    /// Time of the last.
    pub newest: Millis,
}

/// What the log in the key named by the `place`-th argument holds, which expires or not. The key is not open.
pub fn summary(call: &Call, place: usize, expires: bool) -> Result<Summary, Error> {
    let set = call.sorted_set(place).ok_or(Error::Arity)?;
    let log = SortedLog::read(&set, call.now().floor_millis(), expires)?;
    Ok(Summary {
        cost: i64::try_from(log.count).unwrap_or(i64::MAX),
        oldest: time_of(&log.oldest),
        newest: time_of(&log.newest),
    })
}
