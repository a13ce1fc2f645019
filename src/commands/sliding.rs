//! `RL.SLIDING key window max [window max ...] [COST n] [AT ms]`

use super::args::{Args, Range};
use super::moment::Moment;
use super::store;
use crate::limiter::sliding::{self, Quota, Tier, Verdict};
use crate::limiter::{Decision, Millis};
use crate::server::{Arg, ArgKind, Call, Command, Docs, Error};
use crate::state::log::{Change, Full};

/// The command.
pub struct Sliding;

/// What is said of it.
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
        max: args.max(Range::Narrow)?,
    })
}

fn quota(args: &mut Args) -> Result<Quota, Error> {
    let mut quota = Quota::new(tier(args)?);
    while args.is_number_next() {
        let is_room = match tier(args) {
            Err(Error::Arity) => {
                return Err(Error::Message(
                    c"ERR max is missing behind the last window; RL.SLIDING takes pairs of window and max",
                ));
            }
            tier => quota.push(tier?),
        };
        if !is_room {
            return Err(Error::Message(
                c"ERR too many windows; RL.SLIDING takes at most 8 pairs of window and max",
            ));
        }
    }
    Ok(quota)
}

impl Command for Sliding {
    fn run(call: &Call) -> Result<Decision, Error> {
        let mut args = Args::new(call);
        let key = args.key()?;
        let quota = quota(&mut args)?;
        let options = args.options(Range::Narrow, |_, _| {
            Err(Error::Message(
                c"ERR unknown option; behind its pairs of window and max RL.SLIDING knows COST n and AT ms",
            ))
        })?;

        let moment = Moment::of(call, options.at);
        let now = moment.now.floor_millis();
        let mut key = call.open(key).ok_or(Error::Arity)?;
        let log = store::load_log(&mut key)?;
        let Verdict {
            decision,
            shift,
            time,
        } = sliding::decide(&log, &quota, options.cost, now);
        let change = match &log {
            Some(log) if decision.allowed => {
                Change::record(log, shift, time, options.cost, quota.longest())
                    .map_err(|Full| store::NO_ROOM)?
            }
            Some(log) if shift > Millis::ZERO => Change::shift(log, shift),
            None if decision.allowed => Change::create(time, options.cost, quota.longest()),
            _ => return Ok(decision),
        };
        let lifetime = Verdict::lifetime(time, change.horizon(), now);
        store::save_log(&mut key, &change, lifetime, &moment)?;
        Ok(decision)
    }
}
