//! What `INFO` says of the module.

use std::ffi::{CStr, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use redis_module::raw;

use super::api::api;

/// What a module has to say of itself.
pub trait Report {
    /// Says it. For a crash report, too: it may not allocate much, nor wait.
    fn report(info: &mut Info);
}

/// An answer to `INFO` under way.
pub struct Info(*mut raw::RedisModuleInfoCtx);

impl Info {
    /// Begins a section. False where it is not asked for.
    pub fn section(&mut self, name: &CStr) -> bool {
        // SAFETY: the answer is under way; the server copies the name.
        let added = unsafe { api!(RedisModule_InfoAddSection)(self.0, name.as_ptr()) };
        added == raw::REDISMODULE_OK as c_int
    }

    /// A field of the section.
    pub fn field(&mut self, name: &CStr, value: u64) {
        // SAFETY: as in `section`.
        unsafe { api!(RedisModule_InfoAddFieldULongLong)(self.0, name.as_ptr(), value) };
    }

    /// A field of several values.
    pub fn fields(&mut self, name: &CStr, values: &[(&CStr, u64)]) {
        // SAFETY: as in `section`; what is begun is ended.
        unsafe {
            api!(RedisModule_InfoBeginDictField)(self.0, name.as_ptr());
            for (name, value) in values {
                api!(RedisModule_InfoAddFieldULongLong)(self.0, name.as_ptr(), *value);
            }
            api!(RedisModule_InfoEndDictField)(self.0);
        }
    }
}

/// Has `INFO` answered by `R`. False where the server refuses.
///
/// # Safety
/// `ctx` is the one that `RedisModule_OnLoad` was given.
#[must_use]
pub(super) unsafe fn register<R: Report>(ctx: *mut raw::RedisModuleCtx) -> bool {
    // SAFETY: `ctx` by the caller's promise; the function stays as long as the module does.
    let done = unsafe { api!(RedisModule_RegisterInfoFunc)(ctx, Some(report::<R>)) };
    done == raw::REDISMODULE_OK as c_int
}

/// # Safety
/// For the server only.
unsafe extern "C" fn report<R: Report>(info: *mut raw::RedisModuleInfoCtx, _is_crash: c_int) {
    // A panic ends here: what it leaves out is missing from the answer, nothing else.
    let _ = catch_unwind(AssertUnwindSafe(|| R::report(&mut Info(info))));
}
