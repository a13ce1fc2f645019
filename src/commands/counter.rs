//! `RL.COUNTER key window max [BUCKETS n] [COST n] [AT ms]`

use super::args::{Args, Most, Options, error};
use super::grammar;
use super::limiter::{Ask, Limiter};
use super::store;
use super::tally::Counted;
use crate::limiter::Decision;
use crate::limiter::counter::{self, ANY, FEW, MAX_BUCKETS, Quota};
use crate::server::{Arg, ArgKind, Docs, Error, Key};

/// The sliding window counter.
pub struct Counter;

/// What is said of the command.
pub const DOCS: Docs = Docs {
    summary:
        c"Takes from a limit per sliding window of time, estimated from a few counts of fixed size",
    complexity: c"O(n) with n being the number of sub-windows",
    since: c"0.1.0",
    args: &[
        Arg::new(c"key", ArgKind::Key),
        Arg::new(c"window", ArgKind::Text),
        Arg::new(c"max", ArgKind::Integer),
        Arg::option(c"buckets", ArgKind::Integer, c"BUCKETS"),
        Arg::option(c"cost", ArgKind::Integer, c"COST"),
        Arg::option(c"milliseconds", ArgKind::UnixTime, c"AT"),
    ],
};

impl Limiter for Counter {
    const COUNTED: Counted = Counted::Counter;
    type Quota = Quota;

    fn parse(args: &mut Args) -> Result<(Quota, Options), Error> {
        const DEFAULT_BUCKETS: usize = 10;
        let window = args.window()?;
        let max = args.max(Most::Wide)?;
        let mut buckets = None;
        let options = args.options(Most::Wide, |name, value| {
            if !name.eq_ignore_ascii_case(b"BUCKETS") {
                return error(c"ERR unknown option; RL.COUNTER knows BUCKETS n, COST n and AT ms");
            }
            if buckets.is_some() {
                return error(c"ERR BUCKETS may be given once only");
            }
            buckets = value
                .and_then(grammar::integer)
                .and_then(|buckets| usize::try_from(buckets).ok())
                .filter(|buckets| (1..=MAX_BUCKETS).contains(buckets));
            buckets.map(drop).ok_or(Error::Message(
                c"ERR BUCKETS must be an integer from 1 to 256",
            ))
        })?;
        let quota = Quota {
            window,
            max,
            buckets: buckets.unwrap_or(DEFAULT_BUCKETS),
        };
        Ok((quota, options))
    }

    fn decide(ask: &Ask, quota: &Quota) -> Result<Decision, Error> {
        let key = ask.open()?;
        if quota.buckets < FEW && counter::Counter::<FEW>::holds(key.string_len()) {
            decide_with_room::<FEW>(ask, key, quota)
        } else {
            decide_with_room::<ANY>(ask, key, quota)
        }
    }
}

fn decide_with_room<const ROOM: usize>(
    ask: &Ask,
    mut key: Key,
    quota: &Quota,
) -> Result<Decision, Error> {
    let stored: Option<counter::Counter<ROOM>> = store::load(&mut key)?;
    let mut counter = stored.unwrap_or_else(|| counter::Counter::for_quota(quota));
    let now = ask.moment.now.floor_millis();
    let verdict = counter::decide(&mut counter, quota, ask.cost, now, ask.intent);
    if verdict.is_changed {
        store::save(&mut key, &counter, verdict.lifetime, ask)?;
    }
    Ok(verdict.decision)
}
