//! The one place where the server calls in, and where a panic ends.

use std::ffi::{CStr, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use redis_module::raw;

use super::call::Call;
use crate::limiter::Decision;

/// What a call answers instead of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The server's own words for a wrong number of arguments.
    Arity,
    /// A line that begins with its code, `ERR` or `WRONGTYPE`.
    Message(&'static CStr),
}

/// A command: everything between its arguments and its answer.
pub trait Command {
    /// Runs one call. It has written nothing when it answers an error.
    fn run(call: &Call) -> Result<Decision, Error>;
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
    match catch_unwind(AssertUnwindSafe(|| C::run(&call))) {
        Ok(Ok(decision)) => call.reply_integers(&[
            decision.allowed.into(),
            decision.limit as i64,
            decision.remaining as i64,
            decision.wait.map_or(-1, |wait| wait.0),
            decision.reset.0,
        ]),
        Ok(Err(Error::Arity)) => call.reply_wrong_arity(),
        Ok(Err(Error::Message(message))) => call.reply_error(message),
        Err(_) => call.reply_error(c"ERR internal error in redis-rl; the server's log says where"),
    }
}
