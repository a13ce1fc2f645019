//! Reads a call's arguments from left to right. Each error names its argument and says what would be right.

use std::ffi::CStr;
use std::ops::Range;

use super::grammar;
use crate::limiter::sliding::{MAX_COST, MAX_WINDOW};
use crate::limiter::{MAX_INTEGER, Millis, Rate};
use crate::server::{Call, Error};

/// The longest duration that is accepted anywhere.
pub const MAX_DURATION: Millis = Millis(366 * Millis::DAY.0);

/// Up to where an integer may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Most {
    /// 2^53 - 1
    Wide,
    /// 2^32 - 1: `RL.SLIDING`
    Narrow,
}

impl Most {
    fn holds(self, value: u64) -> bool {
        value
            <= match self {
                Self::Wide => MAX_INTEGER,
                Self::Narrow => MAX_COST,
            }
    }
}

/// What every limiter's call may say besides its quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// `COST`, at least 1.
    pub cost: u64,
    /// `AT`: the time as of which to decide.
    pub at: Option<Millis>,
}

/// Some of a call's arguments, one after the other.
pub struct Args<'a> {
    call: &'a Call<'a>,
    next: usize,
    end: usize,
}

/// The error for an option that a limiter does not have or that is given twice, or whose value is wrong.
pub const fn error<T>(message: &'static CStr) -> Result<T, Error> {
    Err(Error::Message(message))
}

impl<'a> Args<'a> {
    /// Those from one place up to another.
    pub fn within(call: &'a Call<'a>, places: Range<usize>) -> Self {
        Self {
            call,
            next: places.start,
            end: places.end.min(call.len()),
        }
    }

    /// Those behind the command's name.
    pub fn new(call: &'a Call<'a>) -> Self {
        Self::within(call, 1..call.len())
    }

    fn peek(&self) -> Option<&'a [u8]> {
        if self.next < self.end {
            self.call.argument(self.next)
        } else {
            None
        }
    }

    /// Whether there are no more.
    pub fn is_end(&self) -> bool {
        self.peek().is_none()
    }

    /// The next argument, which has to be there.
    pub fn take(&mut self) -> Result<&'a [u8], Error> {
        let argument = self.peek().ok_or(Error::Arity)?;
        self.next += 1;
        Ok(argument)
    }

    /// Whether `word` is all that comes; false where nothing does, and `otherwise` where it is something else.
    pub fn ends_with(&mut self, word: &[u8], otherwise: &'static CStr) -> Result<bool, Error> {
        if self.is_end() {
            return Ok(false);
        }
        if self.take()?.eq_ignore_ascii_case(word) && self.is_end() {
            Ok(true)
        } else {
            error(otherwise)
        }
    }

    /// The key, as its place among the arguments.
    pub fn key(&mut self) -> Result<usize, Error> {
        let place = self.next;
        self.take()?;
        Ok(place)
    }

    /// Whether a number comes next, rather than the name of an option or the end.
    pub fn is_number_next(&self) -> bool {
        self.peek()
            .is_some_and(|text| !text.first().is_some_and(u8::is_ascii_alphabetic))
    }

    /// A window of up to 366 days.
    pub fn window(&mut self) -> Result<Millis, Error> {
        grammar::duration(self.take()?, MAX_DURATION).ok_or(Error::Message(
            c"ERR window must be a duration from 1ms to 366d in whole milliseconds, like 60, 0.25, 500ms or 15m",
        ))
    }

    /// A window of up to 31 days.
    pub fn short_window(&mut self) -> Result<Millis, Error> {
        grammar::duration(self.take()?, MAX_WINDOW).ok_or(Error::Message(
            c"ERR window must be a duration from 1ms to 31d in whole milliseconds, like 60, 0.25, 500ms or 15m",
        ))
    }

    /// The maximum of a window.
    pub fn max(&mut self, most: Most) -> Result<u64, Error> {
        match (grammar::integer(self.take()?), most) {
            (Some(max), most) if most.holds(max) => Ok(max),
            (_, Most::Wide) => error(c"ERR max must be an integer from 0 to 9007199254740991"),
            (_, Most::Narrow) => error(c"ERR max must be an integer from 0 to 4294967295"),
        }
    }

    /// The capacity of a bucket.
    pub fn capacity(&mut self) -> Result<u64, Error> {
        grammar::integer(self.take()?).ok_or(Error::Message(
            c"ERR capacity must be an integer from 0 to 9007199254740991",
        ))
    }

    /// The rate of a bucket.
    pub fn rate(&mut self) -> Result<Rate, Error> {
        grammar::rate(self.take()?, MAX_DURATION).ok_or(Error::Message(
            c"ERR rate must be above 0: units per second with at most six decimals, like 10 or 0.5, or N/duration, like 100/60 or 5/m",
        ))
    }

    /// The options, up to the end. `own` takes those that every limiter does not have: a name, and the value behind it if any.
    pub fn options(
        &mut self,
        most: Most,
        mut own: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), Error>,
    ) -> Result<Options, Error> {
        let (mut cost, mut at) = (None, None);
        while !self.is_end() {
            let name = self.take()?;
            let value = self.peek();
            if name.eq_ignore_ascii_case(b"COST") {
                let value = value.and_then(grammar::integer);
                match value.filter(|value| *value >= 1 && most.holds(*value)) {
                    None if most == Most::Wide => {
                        return error(c"ERR COST must be an integer from 1 to 9007199254740991");
                    }
                    None => return error(c"ERR COST must be an integer from 1 to 4294967295"),
                    Some(_) if cost.is_some() => return error(c"ERR COST may be given once only"),
                    value => cost = value,
                }
            } else if name.eq_ignore_ascii_case(b"AT") {
                match value.and_then(grammar::integer) {
                    None => {
                        return error(
                            c"ERR AT must be a time in whole milliseconds since 1970, from 0 to 9007199254740991",
                        );
                    }
                    Some(_) if at.is_some() => return error(c"ERR AT may be given once only"),
                    value => at = value,
                }
            } else {
                own(name, value)?;
            }
            self.next += 1;
        }
        Ok(Options {
            cost: cost.unwrap_or(1),
            at: at.map(|at| Millis(at as i64)),
        })
    }
}
