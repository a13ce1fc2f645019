//! One call of a command: its arguments, its clock, its keys and its reply.

use std::ffi::{CStr, c_int};
use std::slice;

use redis_module::raw;

use super::api::api;
use super::clock;
use super::entry::Error;
use super::key::{Access, Key};
use super::sorted_set::SortedSet;
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

    /// How many arguments there are, the command's name included.
    pub fn len(&self) -> usize {
        self.arguments.len()
    }

    /// Whether there are none, which no server does.
    pub fn is_empty(&self) -> bool {
        self.arguments.is_empty()
    }

    /// Opens the key that the `i`-th argument names. One that has expired is gone by then.
    ///
    /// Not more than one handle of a key may be open at a time: it would dangle when the other one writes.
    pub fn open(&self, i: usize, access: Access) -> Result<Key<'a>, Error> {
        let key = self
            .arguments
            .get(i)
            .and_then(|name| Key::open(*self, *name, access));
        key.ok_or(Error::Message(c"ERR the server does not open this key"))
    }

    /// The sorted set in the key that the `i`-th argument names, by the server's own commands. The key is not open meanwhile.
    pub fn sorted_set(&self, i: usize) -> Option<SortedSet<'a>> {
        Some(SortedSet::new(*self, self.argument(i)?))
    }

    /// 16 random bytes.
    pub fn random(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        // SAFETY: the server fills in as many bytes as there are.
        unsafe { api!(RedisModule_GetRandomBytes)(bytes.as_mut_ptr(), bytes.len()) };
        bytes
    }

    /// The database that the call is for.
    pub fn database(&self) -> u32 {
        // SAFETY: `ctx` is the one of the call.
        let database = unsafe { api!(RedisModule_GetSelectedDb)(self.ctx) };
        u32::try_from(database).unwrap_or(0)
    }

    /// Tells those who listen to what modules do (class `d` of `notify-keyspace-events`) of an event of the key at that place. No key
    /// is open: others may act on it at once.
    pub fn notify(&self, i: usize, event: &CStr) {
        let Some(name) = self.arguments.get(i) else {
            return;
        };
        // SAFETY: `ctx` and `name` belong to the call under way; the server copies the event's name.
        unsafe {
            api!(RedisModule_NotifyKeyspaceEvent)(
                self.ctx,
                raw::REDISMODULE_NOTIFY_MODULE as c_int,
                event.as_ptr(),
                *name,
            )
        };
    }

    /// Whether the server only asks which arguments are keys. It may ask from another thread.
    pub(super) fn is_about_keys(&self) -> bool {
        // SAFETY: `ctx` is the one of the call.
        unsafe { api!(RedisModule_IsKeysPositionRequest)(self.ctx) != 0 }
    }

    /// Tells the server that the `i`-th argument is a key that is read and updated.
    pub(super) fn report_key(&self, i: usize) {
        let flags = raw::REDISMODULE_CMD_KEY_RW
            | raw::REDISMODULE_CMD_KEY_ACCESS
            | raw::REDISMODULE_CMD_KEY_UPDATE;
        let place = c_int::try_from(i).unwrap_or(0);
        // SAFETY: the pointers are written by `Export_RedisModule_Init` alone, which has returned; `ctx` is the one of the call.
        unsafe {
            match raw::RedisModule_KeyAtPosWithFlags {
                Some(report) => report(self.ctx, place, flags as c_int),
                None => api!(RedisModule_KeyAtPos)(self.ctx, place),
            }
        }
    }

    /// Begins an array, of which `len` elements have to follow.
    pub(super) fn reply_array(&self, len: usize) {
        // SAFETY: `ctx` is the one of the call; the function only writes to the client.
        unsafe { api!(RedisModule_ReplyWithArray)(self.ctx, len as _) };
    }

    /// Answers an integer.
    pub(super) fn reply_integer(&self, integer: i64) {
        // SAFETY: as in `reply_array`.
        unsafe { api!(RedisModule_ReplyWithLongLong)(self.ctx, integer) };
    }

    /// Answers an error, code first.
    pub(super) fn reply_error(&self, message: &CStr) {
        // SAFETY: `ctx` is the one of the call; the server copies the text.
        unsafe { api!(RedisModule_ReplyWithError)(self.ctx, message.as_ptr()) };
    }

    /// Answers the server's own error for a wrong number of arguments.
    pub(super) fn reply_wrong_arity(&self) {
        // SAFETY: `ctx` is the one of the call.
        unsafe { api!(RedisModule_WrongArity)(self.ctx) };
    }
}
