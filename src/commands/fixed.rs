//! `RL.FIXED key window max [COST n] [OFFSET duration] [AT ms]`

use super::args::{Args, MAX_DURATION, Range};
use super::moment::Moment;
use super::{grammar, store};
use crate::limiter::fixed::{self, Quota};
use crate::limiter::{Decision, Millis};
use crate::server::{Arg, ArgKind, Call, Command, Docs, Error};

/// The command.
pub struct Fixed;

/// What is said of it.
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

impl Command for Fixed {
    fn run(call: &Call) -> Result<Decision, Error> {
        let mut args = Args::new(call);
        let key = args.key()?;
        let window = args.window()?;
        let max = args.max(Range::Wide)?;
        let mut offset = None;
        let options = args.options(Range::Wide, |name, value| {
            if !name.eq_ignore_ascii_case(b"OFFSET") {
                return Err(Error::Message(
                    c"ERR unknown option; RL.FIXED knows COST n, OFFSET duration and AT ms",
                ));
            }
            if offset.is_some() {
                return Err(Error::Message(c"ERR OFFSET may be given once only"));
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

        let moment = Moment::of(call, options.at);
        let mut key = call.open(key).ok_or(Error::Arity)?;
        let state = store::load(&mut key)?;
        let outcome = fixed::decide(state, &quota, options.cost, moment.now.floor_millis());
        if let Some(next) = &outcome.next {
            store::save(&mut key, next, outcome.lifetime, &moment)?;
        }
        Ok(outcome.decision)
    }
}
