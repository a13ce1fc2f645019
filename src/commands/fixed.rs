//! `RL.FIXED key window max [COST n] [OFFSET duration] [AT ms]`

use super::args::{Args, MAX_DURATION, Most, Options, error};
use super::grammar;
use super::limiter::{Ask, Limiter};
use super::store;
use super::tally::Counted;
use crate::limiter::fixed::{self, Quota};
use crate::limiter::{Decision, Millis};
use crate::server::{Arg, ArgKind, Docs, Error};

/// The fixed window.
pub struct Fixed;

/// What is said of the command.
pub const DOCS: Docs = Docs {
    summary: c"Takes from a limit per fixed window of time, which lies on the clock",
    complexity: c"O(1)",
    since: c"0.1.0",
    args: &[
        Arg::new(c"key", ArgKind::Key),
        Arg::new(c"window", ArgKind::Text),
        Arg::new(c"max", ArgKind::Integer),
        Arg::option(c"cost", ArgKind::Integer, c"COST"),
        Arg::option(c"offset", ArgKind::Text, c"OFFSET"),
        Arg::option(c"milliseconds", ArgKind::UnixTime, c"AT"),
    ],
};

impl Limiter for Fixed {
    const COUNTED: Counted = Counted::Fixed;
    type Quota = Quota;

    fn parse(args: &mut Args) -> Result<(Quota, Options), Error> {
        let window = args.window()?;
        let max = args.max(Most::Wide)?;
        let mut offset = None;
        let options = args.options(Most::Wide, |name, value| {
            if !name.eq_ignore_ascii_case(b"OFFSET") {
                return error(
                    c"ERR unknown option; RL.FIXED knows COST n, OFFSET duration and AT ms",
                );
            }
            if offset.is_some() {
                return error(c"ERR OFFSET may be given once only");
            }
            offset = value.and_then(|value| grammar::duration(value, MAX_DURATION));
            offset.map(drop).ok_or(Error::Message(
                c"ERR OFFSET must be a duration from 1ms to 366d in whole milliseconds, like 8h",
            ))
        })?;
        let quota = Quota {
            window,
            max,
            offset: offset.unwrap_or(Millis::ZERO),
        };
        Ok((quota, options))
    }

    fn decide(ask: &Ask, quota: &Quota) -> Result<Decision, Error> {
        let mut key = ask.open()?;
        let state = store::load(&mut key)?;
        let now = ask.moment.now.floor_millis();
        let outcome = fixed::decide(state, quota, ask.cost, now, ask.intent);
        if let Some(next) = &outcome.next {
            store::save(&mut key, next, outcome.lifetime, ask)?;
        }
        Ok(outcome.decision)
    }
}
