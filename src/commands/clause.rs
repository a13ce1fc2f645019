//! A limiter as part of another command: a word that names it, its key, and its arguments.

use super::args::{Args, Options};
use super::limiter::{Ask, Limiter};
use super::moment::Moment;
use super::{counter, fixed, leaky, sliding, token};
use crate::limiter::{Decision, Intent, Millis};
use crate::server::{Call, Error};

/// A limiter named by a word, read as part of another command.
pub trait Clause {
    /// The place of its key among the arguments.
    fn key(&self) -> usize;
    /// The question that it is.
    fn ask<'a>(&self, call: &'a Call<'a>, moment: Moment, intent: Intent) -> Ask<'a>;
    /// Its own `AT`.
    fn at(&self) -> Option<Millis>;
    /// Asks it.
    fn decide(&self, call: &Call, moment: Moment, intent: Intent) -> Result<Decision, Error>;
}

struct Parsed<L: Limiter> {
    key: usize,
    quota: L::Quota,
    options: Options,
}

impl<L: Limiter> Clause for Parsed<L> {
    fn key(&self) -> usize {
        self.key
    }

    fn ask<'a>(&self, call: &'a Call<'a>, moment: Moment, intent: Intent) -> Ask<'a> {
        Ask {
            call,
            key: self.key,
            cost: self.options.cost,
            moment,
            intent,
        }
    }

    fn at(&self) -> Option<Millis> {
        self.options.at
    }

    fn decide(&self, call: &Call, moment: Moment, intent: Intent) -> Result<Decision, Error> {
        L::decide(&self.ask(call, moment, intent), &self.quota)
    }
}

fn read<L: Limiter + 'static>(args: &mut Args) -> Result<Box<dyn Clause>, Error>
where
    L::Quota: 'static,
{
    let key = args.key()?;
    let (quota, options) = L::parse(args)?;
    Ok(Box::new(Parsed::<L> {
        key,
        quota,
        options,
    }))
}

/// How the clause behind a word is read.
type Read = fn(&mut Args) -> Result<Box<dyn Clause>, Error>;

/// The words for the limiters.
const LIMITERS: [(&str, Read); 5] = [
    ("FIXED", read::<fixed::Fixed>),
    ("SLIDING", read::<sliding::Sliding>),
    ("COUNTER", read::<counter::Counter>),
    ("TOKEN", read::<token::Token>),
    ("LEAKY", read::<leaky::Leaky>),
];

fn limiter(word: &[u8]) -> Option<Read> {
    let mut limiters = LIMITERS.into_iter();
    limiters
        .find(|(known, _)| word.eq_ignore_ascii_case(known.as_bytes()))
        .map(|(_, read)| read)
}

/// Whether `word` names a limiter.
pub fn is_limiter(word: &[u8]) -> bool {
    limiter(word).is_some()
}

/// A clause, from its word on to the end of `args`.
pub fn clause(args: &mut Args) -> Result<Box<dyn Clause>, Error> {
    let read = limiter(args.take()?).ok_or(Error::Message(
        c"ERR algorithm must be FIXED, SLIDING, COUNTER, TOKEN or LEAKY",
    ))?;
    read(args)
}
