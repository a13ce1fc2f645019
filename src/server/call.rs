//! One call of a command: its arguments, its clock, its keys and its reply.

use std::ffi::{CStr, c_int};
use std::slice;

use redis_module::raw;

use super::api::api;
use super::clock;
use super::key::Key;
use crate::limiter::Micros;

/// A call under way.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub(super) ctx: *mut raw::RedisModuleCtx,
    arguments: &'a [*mut raw::RedisModuleString],
}

impl<'a> Call<'a> {
    /// # Safety
    /// The three are what the server gave to a command's function, and outlive `'a`.
    pub(super) unsafe fn new(
        ctx: *mut raw::RedisModuleCtx,
        argv: *mut *mut raw::RedisModuleString,
        argc: c_int,
    ) -> Self {
        let arguments = match usize::try_from(argc) {
            Ok(count) if count > 0 && !argv.is_null() => {
                // SAFETY: the server passes `argc` arguments in `argv`.
                unsafe { slice::from_raw_parts(argv.cast_const(), count) }
            }
            _ => &[],
        };
        Self { ctx, arguments }
    }

    /// The `i`-th argument, the command's name being the 0th; `None` behind the last.
    pub fn argument(&self, i: usize) -> Option<&'a [u8]> {
        let argument = *self.arguments.get(i)?;
        let mut len = 0;
        // SAFETY: the server keeps the arguments, unchanged, until the command's function returns.
        unsafe {
            let text = api!(RedisModule_StringPtrLen)(argument, &mut len);
            (!text.is_null()).then(|| slice::from_raw_parts(text.cast::<u8>(), len))
        }
    }

    /// The time, in microseconds since 1970.
    pub fn now(&self) -> Micros {
        clock::now()
    }

    /// Opens the key that the `i`-th argument names, for reading and writing. One that has expired is gone by then.
    ///
    /// Not more than one handle of a key may be open at a time: it would dangle when the other one writes.
    pub fn open(&self, i: usize) -> Option<Key<'a>> {
        Key::open(*self, *self.arguments.get(i)?)
    }

    /// Answers an array of integers.
    pub(super) fn reply_integers(&self, integers: &[i64]) -> c_int {
        // SAFETY: `ctx` is the one of the call; both functions only write to the client.
        unsafe {
            api!(RedisModule_ReplyWithArray)(self.ctx, integers.len() as _);
            for integer in integers {
                api!(RedisModule_ReplyWithLongLong)(self.ctx, *integer);
            }
        }
        raw::REDISMODULE_OK as c_int
    }

    /// Answers an error, code first.
    pub(super) fn reply_error(&self, message: &CStr) -> c_int {
        // SAFETY: `ctx` is the one of the call; the server copies the text.
        unsafe { api!(RedisModule_ReplyWithError)(self.ctx, message.as_ptr()) }
    }

    /// Answers the server's own error for a wrong number of arguments.
    pub(super) fn reply_wrong_arity(&self) -> c_int {
        // SAFETY: `ctx` is the one of the call.
        unsafe { api!(RedisModule_WrongArity)(self.ctx) }
    }
}
