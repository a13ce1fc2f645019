//! `RL.PEEK ALGORITHM key ...`

use super::args::Args;
use super::clause::clause;
use super::moment::Moment;
use super::tally::Counted;
use crate::limiter::Intent;
use crate::server::{Arg, ArgKind, Call, Command, Docs, Error, Reply};

/// The command.
pub struct Peek;

/// The words for the limiters.
pub const ALGORITHMS: ArgKind =
    ArgKind::Word(&[c"FIXED", c"SLIDING", c"COUNTER", c"TOKEN", c"LEAKY"]);

/// What is said of it.
pub const DOCS: Docs = Docs {
    summary: c"Tells whether a limiter would allow a call now, and takes nothing",
    complexity: c"That of the algorithm",
    since: c"0.1.0",
    args: &[
        Arg::new(c"algorithm", ALGORITHMS),
        Arg::new(c"key", ArgKind::Key),
        Arg::repeated(c"argument", ArgKind::Text),
    ],
};

impl Command for Peek {
    fn run(call: &Call) -> Result<Reply, Error> {
        let peek = || {
            let clause = clause(&mut Args::new(call))?;
            let moment = Moment::of(call, clause.at());
            clause.decide(call, moment, Intent::Look)
        };
        let decided = peek();
        Counted::Peek.count(&decided, |decision| decision.allowed);
        decided.map(Reply::Decision)
    }
}
