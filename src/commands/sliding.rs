//! `RL.SLIDING key window max [window max ...] [COST n] [AT ms]`

use super::args::{Args, Most, Options, error};
use super::limiter::{Ask, Limiter};
use super::tally::Counted;
use super::{settings, sorted_log, store};
use crate::limiter::sliding::{self, Quota, Tier, Verdict};
use crate::limiter::{Decision, Intent, Millis};
use crate::server::{Arg, ArgKind, Docs, Error, Kind};
use crate::state::log::{Change, Full};

/// The sliding window log.
pub struct Sliding;

/// What is said of the command.
pub const DOCS: Docs = Docs {
    summary: c"Takes from one or more limits per sliding window of time, exact to the millisecond",
    complexity: c"O(log n) with n being the requests in the longest window",
    since: c"0.1.0",
    args: &[
        Arg::new(c"key", ArgKind::Key),
        Arg::repeated(
            c"tier",
            ArgKind::Block(&[
                Arg::new(c"window", ArgKind::Text),
                Arg::new(c"max", ArgKind::Integer),
            ]),
        ),
        Arg::option(c"cost", ArgKind::Integer, c"COST"),
        Arg::option(c"milliseconds", ArgKind::UnixTime, c"AT"),
    ],
};

fn tier(args: &mut Args) -> Result<Tier, Error> {
    Ok(Tier {
        window: args.short_window()?,
        max: args.max(Most::Narrow)?,
    })
}

fn quota(args: &mut Args) -> Result<Quota, Error> {
    let mut quota = Quota::new(tier(args)?);
    while args.is_number_next() {
        let is_room = match tier(args) {
            Err(Error::Arity) => {
                return error(
                    c"ERR max is missing behind the last window; RL.SLIDING takes pairs of window and max",
                );
            }
            tier => quota.push(tier?),
        };
        if !is_room {
            return error(
                c"ERR too many windows; RL.SLIDING takes at most 8 pairs of window and max",
            );
        }
    }
    Ok(quota)
}

impl Limiter for Sliding {
    const COUNTED: Counted = Counted::Sliding;
    type Quota = Quota;

    fn parse(args: &mut Args) -> Result<(Quota, Options), Error> {
        let quota = quota(args)?;
        let options = args.options(Most::Narrow, |_, _| {
            error(
                c"ERR unknown option; behind its pairs of window and max RL.SLIDING knows COST n and AT ms",
            )
        })?;
        Ok((quota, options))
    }

    fn decide(ask: &Ask, quota: &Quota) -> Result<Decision, Error> {
        let now = ask.moment.now.floor_millis();
        let mut key = ask.open()?;
        let is_sorted_set = match key.kind() {
            Kind::SortedSet => true,
            Kind::Missing => settings::stores_in_sorted_sets(),
            _ => false,
        };
        if is_sorted_set {
            let (expiry, is_new) = (key.expires_at(), key.kind() == Kind::Missing);
            let usage = (ask.intent == Intent::Look).then(|| key.usage());
            // The server's own commands do the rest, for which the key may not be open.
            drop(key);
            let decision = sorted_log::decide(ask, quota, now, is_new, expiry);
            if let Some(usage) = usage {
                ask.open()?.set_usage(usage);
            }
            return decision;
        }
        let log = store::load_log(&mut key, now)?;
        let Verdict {
            decision,
            shift,
            time,
        } = sliding::decide(&log, quota, ask.cost, now, ask.intent);
        // For a look, too: RL.ALL has to know of a log that is full before it takes from any other.
        let change = match &log {
            Some(log) if decision.allowed => {
                Change::record(log, shift, time, ask.cost, quota.longest())
                    .map_err(|Full| store::NO_ROOM)?
            }
            Some(log) if shift > Millis::ZERO => Change::shift(log, shift),
            None if decision.allowed && ask.intent == Intent::Take => {
                Change::create(time, ask.cost, quota.longest())
            }
            _ => return Ok(decision),
        };
        let lifetime = Verdict::lifetime(time, change.horizon(), now);
        store::save_log(&mut key, &change, lifetime, ask)?;
        Ok(decision)
    }
}
