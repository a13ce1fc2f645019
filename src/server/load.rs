//! Loading: what the module tells the server of itself, and what it asks for first.

use std::ffi::{CStr, CString, c_int};
use std::io;
use std::panic;
use std::ptr;

use redis_module::raw;

use super::api::{api, first_missing};
use super::call::Call;
use super::clock;
use super::config::{self, ChoiceSpec};
use super::docs::{self, Docs, Keys};
use super::entry::Handler;
use super::info::{self, Report};
use super::kept;
use crate::limiter::Millis;

/// A command as it is registered.
pub struct Spec {
    /// Its name.
    pub name: &'static CStr,
    /// The server's words for what it does, like `write fast`.
    pub flags: &'static CStr,
    /// Its number of arguments with its name, negative for "at least".
    pub arity: c_int,
    /// Its keys.
    pub keys: Keys,
    /// What runs it.
    pub handler: Handler,
    /// What is said of it.
    pub docs: Docs,
}

/// The server loading this module.
pub struct OnLoad {
    ctx: *mut raw::RedisModuleCtx,
    arguments: Vec<Vec<u8>>,
}

/// Valkey 9: atomic slot migration may move our keys, which are plain strings. Unknown to the bindings.
const HANDLE_ATOMIC_SLOT_MIGRATION: c_int = 1 << 5;
/// Valkey 8.1: what we replicate is not looked up by its name each time. Unknown to the bindings.
const SKIP_COMMAND_VALIDATION: c_int = 1 << 4;

impl OnLoad {
    /// Begins to load. `None` where the server is too old or the name is taken; it then says so itself or has been told.
    ///
    /// # Safety
    /// For `RedisModule_OnLoad` only, with what it was given, before anything else.
    pub(crate) unsafe fn begin(
        ctx: *mut raw::RedisModuleCtx,
        argv: *mut *mut raw::RedisModuleString,
        argc: c_int,
        name: &CStr,
        version: c_int,
    ) -> Option<Self> {
        const API_VERSION: c_int = raw::REDISMODULE_APIVER_1 as c_int;
        // SAFETY: `ctx` is the server's, by the caller's promise; this fills in the API's pointers.
        let done =
            unsafe { raw::Export_RedisModule_Init(ctx, name.as_ptr(), version, API_VERSION) };
        if done != raw::REDISMODULE_OK as c_int {
            return None;
        }
        match first_missing() {
            None => {
                log_panics();
                kept::make();
                // SAFETY: the server's own, by the caller's promise. Unlike a command's, the first argument is one.
                let call = unsafe { Call::new(ctx, argv, argc) };
                let arguments = (0..call.len()).filter_map(|i| call.argument(i));
                let arguments = arguments.map(<[u8]>::to_vec).collect();
                Some(Self { ctx, arguments })
            }
            Some(function) => {
                // `api!` may not be used yet: what is missing could be the log itself.
                // SAFETY: the pointer is written by `Export_RedisModule_Init` alone, which has returned.
                if let Some(log) = unsafe { raw::RedisModule_Log } {
                    let text = CString::new(format!(
                        "redis-rl needs Redis 6.2 or later, or Valkey: this server has no {function}"
                    ));
                    // SAFETY: `ctx` is the server's; the format takes one C string.
                    unsafe {
                        log(
                            ctx,
                            c"warning".as_ptr(),
                            c"%s".as_ptr(),
                            text.unwrap_or_default().as_ptr(),
                        );
                    }
                }
                None
            }
        }
    }

    /// The arguments behind `loadmodule` and the path.
    pub fn arguments(&self) -> &[Vec<u8>] {
        &self.arguments
    }

    /// Makes settings known to `CONFIG`. False where the server refuses.
    #[must_use]
    pub fn configure(&self, settings: &[ChoiceSpec]) -> bool {
        // SAFETY: `ctx` is the one of the load under way.
        unsafe { config::register(self.ctx, settings) }
    }

    /// Has `INFO` answered by `R`. False where the server refuses.
    #[must_use]
    pub fn report_by<R: Report>(&self) -> bool {
        // SAFETY: `ctx` is the one of the load under way.
        unsafe { info::register::<R>(self.ctx) }
    }

    /// The time, in milliseconds since 1970.
    pub fn now(&self) -> Millis {
        clock::now().floor_millis()
    }

    /// Writes a warning to the server's log.
    pub fn warn(&self, text: &str) {
        log_warning(self.ctx, text);
    }

    /// Sets what the server may expect of the module: that it signals changes itself, that the commands it replicates exist (which
    /// [`OnLoad::first_unknown`] found out), and that its keys may be loaded, swapped and migrated at any time, as it keeps nothing of them.
    pub fn set_options(&self) {
        let wanted = raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED as c_int
            | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD as c_int
            | SKIP_COMMAND_VALIDATION
            | HANDLE_ATOMIC_SLOT_MIGRATION;
        // SAFETY: the pointer is written by `Export_RedisModule_Init` alone, which has returned; the function takes nothing.
        let known = match unsafe { raw::RedisModule_GetModuleOptionsAll } {
            // SAFETY: as above.
            Some(all) => unsafe { all() },
            None => !(SKIP_COMMAND_VALIDATION | HANDLE_ATOMIC_SLOT_MIGRATION),
        };
        // SAFETY: `ctx` is the one of the load under way.
        unsafe { api!(RedisModule_SetModuleOptions)(self.ctx, wanted & known) };
    }

    /// The first of these commands that this server does not know by its name, having had it renamed.
    pub fn first_unknown(&self, commands: &'static [&'static CStr]) -> Option<&'static CStr> {
        commands.iter().copied().find(|name| {
            // SAFETY: `ctx` is the one of the load under way; the format takes no arguments. A known command is not run: it has
            // too few, which gives no reply but another error.
            let reply = unsafe { api!(RedisModule_Call)(self.ctx, name.as_ptr(), c"".as_ptr()) };
            let error = io::Error::last_os_error().raw_os_error();
            reply.is_null() && error == Some(libc::ENOENT)
        })
    }

    /// Registers a command. False where the server refuses.
    #[must_use]
    pub fn register(&self, spec: &Spec) -> bool {
        let (first, last, step) = match spec.keys {
            Keys::Updated(place) | Keys::Read(place) => (place, place, 1),
            Keys::Found | Keys::None => (0, 0, 0),
        };
        // SAFETY: `ctx` is the one of the load under way; the server copies the texts, and the function stays as long as the
        // module does.
        unsafe {
            let created = api!(RedisModule_CreateCommand)(
                self.ctx,
                spec.name.as_ptr(),
                spec.handler.0,
                spec.flags.as_ptr(),
                first,
                last,
                step,
            );
            created == raw::REDISMODULE_OK as c_int
                && docs::tell(self.ctx, spec.name, spec.arity, spec.keys, &spec.docs)
                && categorize(self.ctx, spec.name, spec.keys)
        }
    }
}

/// The category of all our commands, for ACL rules like `+@rate_limit`.
const CATEGORY: &CStr = c"rate_limit";

/// Puts the command `name` into the server's ACL categories: those of its flags (from 7.2 on), and one of our own where the server
/// can make one (from 7.4 on). False where it refuses; true where it has no such thing.
///
/// # Safety
/// `ctx` is the one that `RedisModule_OnLoad` was given, and the command was created with it.
unsafe fn categorize(ctx: *mut raw::RedisModuleCtx, name: &CStr, keys: Keys) -> bool {
    // SAFETY: the pointers are written by `Export_RedisModule_Init` alone, which has returned.
    let functions = unsafe {
        (
            raw::RedisModule_GetCommand,
            raw::RedisModule_SetCommandACLCategories,
            raw::RedisModule_AddACLCategory,
        )
    };
    let (Some(get_command), Some(set), add) = functions else {
        return true;
    };
    // A category outlives the module that made it, and is found there by the next one.
    // SAFETY: `ctx` by the caller's promise; the server copies the name.
    let has_own = add.is_some_and(|add| unsafe { add(ctx, CATEGORY.as_ptr()) }
        == raw::REDISMODULE_OK as c_int
        || io::Error::last_os_error().raw_os_error() == Some(libc::EBUSY));
    let categories = match (keys, has_own) {
        // They tell of all keys, whatever a user may see.
        (Keys::None, _) => c"admin slow dangerous",
        (Keys::Read(_), false) => c"read fast",
        (Keys::Read(_), true) => c"read fast rate_limit",
        (_, false) => c"write fast",
        (_, true) => c"write fast rate_limit",
    };
    // SAFETY: as above.
    unsafe {
        let command = get_command(ctx, name.as_ptr());
        !command.is_null() && set(command, categories.as_ptr()) == raw::REDISMODULE_OK as c_int
    }
}

/// Has panics written to the server's log. (The default hook prints to a standard error that nobody may see, and keeps the module
/// from being unmapped when it prints a backtrace.)
fn log_panics() {
    panic::set_hook(Box::new(|info| {
        log_warning(ptr::null_mut(), &format!("redis-rl: {info}"));
    }));
}

fn log_warning(ctx: *mut raw::RedisModuleCtx, text: &str) {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // SAFETY: `ctx` is the server's or null, which the log accepts; the format takes one C string.
    unsafe {
        api!(RedisModule_Log)(ctx, c"warning".as_ptr(), c"%s".as_ptr(), text.as_ptr());
    }
}

/// Gives back what loading kept.
pub fn unload() {
    kept::free();
    drop(panic::take_hook());
}

/// Makes the two functions by which the server loads and unloads the module `name`.
///
/// `load` is given an [`OnLoad`], and answers whether to go on.
macro_rules! module {
    (name: $name:expr, version: $version:expr, load: $load:path) => {
        /// The server loads the module.
        ///
        /// # Safety
        /// For the server only.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn RedisModule_OnLoad(
            ctx: *mut redis_module::raw::RedisModuleCtx,
            argv: *mut *mut redis_module::raw::RedisModuleString,
            argc: std::ffi::c_int,
        ) -> std::ffi::c_int {
            let begun = std::panic::catch_unwind(|| {
                // SAFETY: the server calls this first, with its own context and arguments.
                unsafe { $crate::server::OnLoad::begin(ctx, argv, argc, $name, $version) }
            });
            let Ok(Some(on_load)) = begun else {
                return redis_module::raw::REDISMODULE_ERR as std::ffi::c_int;
            };
            let loaded = std::panic::catch_unwind(|| $load(&on_load));
            if let Ok(true) = loaded {
                return redis_module::raw::REDISMODULE_OK as std::ffi::c_int;
            }
            // The server will not call for it.
            let _ = std::panic::catch_unwind($crate::server::unload);
            redis_module::raw::REDISMODULE_ERR as std::ffi::c_int
        }

        /// The server unloads the module.
        #[unsafe(no_mangle)]
        pub extern "C" fn RedisModule_OnUnload(
            _ctx: *mut redis_module::raw::RedisModuleCtx,
        ) -> std::ffi::c_int {
            let _ = std::panic::catch_unwind($crate::server::unload);
            redis_module::raw::REDISMODULE_OK as std::ffi::c_int
        }
    };
}
pub(crate) use module;
