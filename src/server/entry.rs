//! The one place where the server calls in, and where a panic ends.

use std::ffi::{CStr, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use redis_module::{Context, RedisValue, raw};

use super::call::Call;
use crate::limiter::Decision;

/// What a call answers.
#[derive(Debug, PartialEq)]
pub enum Reply {
    /// The five integers of a limiter.
    Decision(Decision),
    /// Five other integers.
    Integers([i64; 5]),
    /// Several decisions: whether all allow, the place of the first that does not or -1, then each.
    All(Vec<Decision>),
    /// Something else, from a command that need not be quick.
    Value(RedisValue),
}

/// What a call answers instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The server's own words for a wrong number of arguments.
    Arity,
    /// A line that begins with its code, `ERR` or `WRONGTYPE`.
    Message(&'static CStr),
}

/// Calls back with the place of each key among a call's arguments.
pub type ForEachKey = fn(&Call, &mut dyn FnMut(usize));

/// A command: everything between its arguments and its answer.
pub trait Command {
    /// Runs one call. It has written nothing when it answers an error, unless the server itself refused half-way what it had to take.
    fn run(call: &Call) -> Result<Reply, Error>;

    /// Tells which arguments are keys, for a command whose keys the server cannot find by their places. Pure: the server asks at any
    /// time and from any thread, about arguments that nobody has looked at.
    const FOR_EACH_KEY: Option<ForEachKey> = None;
}

/// The function that the server calls for a command.
#[derive(Clone, Copy)]
pub struct Handler(pub(super) raw::RedisModuleCmdFunc);

impl Handler {
    /// The one for `C`.
    pub const fn of<C: Command>() -> Self {
        Self(Some(entry::<C>))
    }
}

/// # Safety
/// For the server only, as a command's function.
unsafe extern "C" fn entry<C: Command>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server's own arguments, which outlive this call.
    let call = unsafe { Call::new(ctx, argv, argc) };
    // Everything is computed before the reply begins: a reply cut off by a panic would leave the client waiting.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        if let Some(for_each_key) = C::FOR_EACH_KEY
            && call.is_about_keys()
        {
            for_each_key(&call, &mut |i| call.report_key(i));
            None
        } else {
            Some(C::run(&call))
        }
    }));
    match outcome {
        Ok(None) => {}
        Ok(Some(Ok(reply))) => send(&call, reply),
        Ok(Some(Err(Error::Arity))) => call.reply_wrong_arity(),
        Ok(Some(Err(Error::Message(message)))) => call.reply_error(message),
        Err(_) => call.reply_error(c"ERR internal error in redis-rl; the server's log says where"),
    }
    raw::REDISMODULE_OK as c_int
}

fn send(call: &Call, reply: Reply) {
    match reply {
        Reply::Decision(decision) => send_integers(call, decision.integers()),
        Reply::Integers(integers) => send_integers(call, integers),
        Reply::All(decisions) => {
            let denied = decisions.iter().position(|decision| !decision.allowed);
            call.reply_array(2 + decisions.len());
            call.reply_integer(denied.is_none().into());
            call.reply_integer(denied.map_or(-1, |i| i as i64));
            for decision in &decisions {
                send_integers(call, decision.integers());
            }
        }
        Reply::Value(value) => {
            Context::new(call.ctx.cast()).reply(Ok(value));
        }
    }
}

fn send_integers(call: &Call, integers: [i64; 5]) {
    call.reply_array(integers.len());
    for integer in integers {
        call.reply_integer(integer);
    }
}
