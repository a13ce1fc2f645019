//! The log of `RL.SLIDING` in a sorted set, the classic way: the score of a request is its time in milliseconds, its member a unique id.
//!
//! A script that does `ZREMRANGEBYSCORE`, `ZCARD`, `ZADD` and `EXPIRE` can work on the same key. How far back the log has to remember
//! stands in our members (see [`Id`]); where there are only a script's, their expiry tells.

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

/// What stands in the 80 bits of our ULIDs that are free: 32 bits of milliseconds that the log remembers, 16 bits that tell them from
/// anybody else's, 32 random bits. The horizon only grows, so that they stay monotonic.
struct Id;

impl Id {
    const MARK: u128 = 0x524C;
    /// The last time that a ULID can tell, in the year 10889.
    const LAST_TIME: u64 = (1 << 48) - 1;

    /// A fresh one. Its random part leaves room for the increments of one call.
    fn make(time: Millis, horizon: Millis, random: [u8; 16]) -> Ulid {
        let random = u128::from_le_bytes(random) & 0x7FFF_FFFF;
        let free = (horizon.0 as u128) << 48 | Self::MARK << 32 | random;
        Ulid::from_parts(time.0.unsigned_abs().min(Self::LAST_TIME), free)
    }

    /// How far back the log had to remember when this member was made; `None` for somebody else's.
    fn horizon(member: &[u8]) -> Option<Millis> {
        let free = ulid(member)?.random();
        let horizon = Millis((free >> 48) as i64);
        let is_ours = free >> 32 & 0xFFFF == Self::MARK;
        (is_ours && horizon > Millis::ZERO && horizon <= MAX_WINDOW).then_some(horizon)
    }
}

/// Whether a sorted set with these ends is a log, and not a queue or a ranking that is not to be touched. A request is one of our
/// members, or a time near now; where there are only times, the key has to expire, as a log does.
fn is_log(ends: [&Entry; 2], now: Millis, expires: bool) -> bool {
    let is_ours = |end: &Entry| Id::horizon(&end.member).is_some();
    let is_request = |end: &Entry| {
        let is_near = (end.score - now.0 as f64).abs() <= NEAR.0 as f64;
        is_near || (is_ours(end) && end.score.abs() <= MAX_INTEGER as f64)
    };
    ends.into_iter().all(is_request) && (expires || ends.into_iter().any(is_ours))
}

impl<'a> SortedLog<'a> {
    fn read(set: &'a SortedSet<'a>, now: Millis, expires: bool) -> Result<Self, Error> {
        let count = set.count().ok_or(REFUSED)?;
        let ends = [set.entries(0, 0), set.entries(-1, -1)];
        let [Some(oldest), Some(newest)] = ends.map(|end| end.and_then(|mut end| end.pop())) else {
            return Err(REFUSED);
        };
        if !is_log([&oldest, &newest], now, expires) {
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
        write(ask, quota, now, &set, log.as_ref(), &verdict, expiry).ok_or(REFUSED)?;
    }
    Ok(verdict.decision)
}

/// How far back the log has to remember: at least over `window`, which this call looks back.
fn horizon(
    ask: &Ask,
    window: Millis,
    now: Millis,
    log: &SortedLog,
    expiry: Option<Millis>,
) -> Millis {
    // What our members tell, and what a script asked for by its expiry. Our own expiry tells the same as our members.
    let age = now - time_of(&log.newest);
    let asked = expiry.map(|expiry| ask.moment.span(age, expiry, window));
    let ends = [&log.oldest, &log.newest].map(|end| Id::horizon(&end.member));
    let earlier = ends
        .into_iter()
        .chain([asked])
        .flatten()
        .max()
        .unwrap_or(window);
    earlier.clamp(window, MAX_WINDOW)
}

fn write(
    ask: &Ask,
    quota: &Quota,
    now: Millis,
    set: &SortedSet,
    log: Option<&SortedLog>,
    verdict: &sliding::Verdict,
    expiry: Option<Millis>,
) -> Option<()> {
    let is_moved = verdict.shift > Millis::ZERO;
    if !verdict.decision.allowed && !is_moved {
        return Some(());
    }
    let window = quota.longest().window;
    let horizon = log.map_or(window, |log| horizon(ask, window, now, log, expiry));
    if is_moved && let Some(log) = log {
        set.remove_up_to((time_of(&log.newest) - horizon).0)?;
        shift(set, verdict.shift)?;
    }
    if verdict.decision.allowed {
        // First the new ones: a set that runs empty is gone, and its expiry with it.
        set.put(&members(ask, log, verdict.time, horizon))?;
        if log.is_some() {
            set.remove_up_to((verdict.time - horizon).0)?;
        }
    }
    // Exact, as a script's log has nothing else to tell its horizon.
    let lifetime = Lifetime::exact(Millis::clamped((verdict.time + horizon - now).0.into()));
    match ask.moment.expiry(lifetime, None) {
        wanted if wanted == expiry => Some(()),
        wanted => set.expire_at(wanted?),
    }
}

/// The members for a request at `time`: ULIDs that are greater than the newest, if that is one of ours.
fn members(ask: &Ask, log: Option<&SortedLog>, time: Millis, horizon: Millis) -> Vec<Entry> {
    let newest = log.map(|log| &log.newest.member);
    let newest = newest.filter(|member| Id::horizon(member).is_some());
    let newest = newest.and_then(|member| ulid(member));
    // Behind a clock that was set back the newest keeps its own time, and so do those that follow it.
    let last = newest.map_or(0, |newest| newest.timestamp_ms() as i64);
    let fresh = Id::make(time.max(Millis(last)), horizon, ask.call.random());
    let mut next = match newest {
        Some(newest) if fresh <= newest => newest.increment().unwrap_or(fresh),
        _ => fresh,
    };
    let mut members = Vec::with_capacity(ask.cost as usize);
    for _ in 0..ask.cost {
        members.push(Entry {
            member: next.to_string().into_bytes(),
            score: time.0 as f64,
        });
        next = next.increment().unwrap_or(fresh);
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
