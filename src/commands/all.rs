//! `RL.ALL clause [clause ...] [AT ms]`, a clause being `ALGORITHM key ... [COST n]`

use std::ops::Range;

use super::args::{Args, error};
use super::clause::{Clause, clause, is_limiter};
use super::moment::Moment;
use super::peek::ALGORITHMS;
use super::tally::{self, Counted};
use crate::limiter::{Decision, Intent};
use crate::server::{Arg, ArgKind, Call, Command, Docs, Error, ForEachKey, Reply};

/// The command.
pub struct All;

/// The most clauses in one call.
const MAX_CLAUSES: usize = 32;

/// A clause is a word, a key and two arguments at least.
const CLAUSE_LEN: usize = 4;

/// The error for a clause with too few arguments; others are as they are.
fn cut_short(error: Error) -> Error {
    match error {
        Error::Arity => Error::Message(
            c"ERR a clause is cut short: behind FIXED, SLIDING and COUNTER come key, window and max, behind TOKEN and LEAKY key, capacity and rate",
        ),
        other => other,
    }
}

/// What is said of it.
pub const DOCS: Docs = Docs {
    summary: c"Takes from several limiters at once, or from none of them",
    complexity: c"The sum of those of the algorithms",
    since: c"0.1.0",
    args: &[
        Arg::repeated(
            c"clause",
            ArgKind::Block(&[
                Arg::new(c"algorithm", ALGORITHMS),
                Arg::new(c"key", ArgKind::FoundKey),
                Arg::repeated(c"argument", ArgKind::Text),
            ]),
        ),
        Arg::option(c"milliseconds", ArgKind::UnixTime, c"AT"),
    ],
};

/// Where each clause begins and ends. It begins with its word and its key, whatever that is called, and goes on to the next word.
fn clauses<'a>(call: &'a Call) -> impl Iterator<Item = Range<usize>> + 'a {
    let mut start = 1;
    std::iter::from_fn(move || {
        call.argument(start)?;
        let is_word = |i: &usize| call.argument(*i).is_none_or(is_limiter);
        let end = (start + 2..).find(is_word).unwrap_or(start + 2);
        let clause = start..end;
        start = end;
        Some(clause)
    })
}

/// The clauses of a call and the time that they are decided by.
fn parse(call: &Call) -> Result<(Vec<Box<dyn Clause>>, Moment), Error> {
    if call.len() < 1 + CLAUSE_LEN {
        return Err(Error::Arity);
    }
    let most = (call.len() / CLAUSE_LEN).min(MAX_CLAUSES);
    let mut asked: Vec<Box<dyn Clause>> = Vec::with_capacity(most);
    for places in clauses(call) {
        if asked.len() == MAX_CLAUSES {
            return error(c"ERR too many clauses; RL.ALL takes at most 32");
        }
        if asked.last().is_some_and(|last| last.at().is_some()) {
            return error(c"ERR AT goes behind the last clause and holds for all of them");
        }
        let next = clause(&mut Args::within(call, places)).map_err(cut_short)?;
        let name = call.argument(next.key());
        if asked.iter().any(|other| call.argument(other.key()) == name) {
            return error(
                c"ERR key may be given once only; for several windows on one key use the pairs of SLIDING",
            );
        }
        asked.push(next);
    }
    let at = asked.last().and_then(|last| last.at());
    let moment = Moment::of(call, at);
    Ok((asked, moment))
}

/// Takes from all, or from none: what each answers.
///
/// Each key is open only while its own clause is decided. Whatever happens to a key is an event, and a module that listens may act
/// on any other key at once: a handle kept meanwhile would dangle.
fn decide(call: &Call, asked: &[Box<dyn Clause>], moment: Moment) -> Result<Vec<Decision>, Error> {
    let ask_each = |intent| -> Result<Vec<Decision>, Error> {
        let mut decisions = Vec::with_capacity(asked.len());
        for clause in asked {
            decisions.push(clause.decide(call, moment, intent)?);
        }
        Ok(decisions)
    };
    // A look at each first: it finds every reason, errors too, for which nothing may be taken.
    let looks = ask_each(Intent::Look)?;
    if looks.iter().all(|look| look.allowed) {
        return ask_each(Intent::Take);
    }
    // What denies is asked like by its own command, which writes nothing, unless the clock was changed: then the state is moved.
    for (clause, look) in asked.iter().zip(&looks) {
        if !look.allowed {
            clause.decide(call, moment, Intent::Take)?;
        }
    }
    Ok(looks)
}

impl Command for All {
    const FOR_EACH_KEY: Option<ForEachKey> = Some(for_each_key);

    fn run(call: &Call) -> Result<Reply, Error> {
        let decide = || {
            let (asked, moment) = parse(call)?;
            let decisions = decide(call, &asked, moment)?;
            for (clause, decision) in asked.iter().zip(&decisions) {
                if !decision.allowed {
                    tally::denied(&clause.ask(call, moment, Intent::Take));
                }
            }
            Ok(decisions)
        };
        let decided = decide();
        Counted::All.count(&decided, |decisions| {
            decisions.iter().all(|decision| decision.allowed)
        });
        decided.map(Reply::All)
    }
}

fn for_each_key(call: &Call, found: &mut dyn FnMut(usize)) {
    for clause in clauses(call) {
        if clause.start + 1 < call.len() {
            found(clause.start + 1);
        }
    }
}
