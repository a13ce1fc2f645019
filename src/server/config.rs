//! Settings: module arguments on every server, and `CONFIG` where the server has it for modules (from 7.0 on).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use redis_module::raw;

/// A setting with one of a few values.
pub struct Choice(AtomicUsize);

impl Choice {
    /// With the value of that place among its words.
    pub const fn new(place: usize) -> Self {
        Self(AtomicUsize::new(place))
    }

    /// The place of its value among its words.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets it to the value of that place.
    pub fn set(&self, place: usize) {
        self.0.store(place, Ordering::Relaxed);
    }
}

/// A setting as it is registered.
pub struct ChoiceSpec {
    /// Its name as a module argument; `CONFIG` puts `rl.` before it.
    pub name: &'static CStr,
    /// The values that it can have.
    pub words: &'static [&'static CStr],
    /// Where its value is kept.
    pub choice: &'static Choice,
}

impl ChoiceSpec {
    /// Sets it by one of its words; false if it is none of them.
    #[must_use]
    pub fn set(&self, word: &[u8]) -> bool {
        let place = self
            .words
            .iter()
            .position(|known| known.to_bytes().eq_ignore_ascii_case(word));
        place.map(|place| self.choice.set(place)).is_some()
    }
}

/// Makes settings known to `CONFIG`, with their present values as defaults, and takes over what the configuration file says of
/// them. False where the server refuses; true where it has no such thing.
///
/// # Safety
/// `ctx` is the one that `RedisModule_OnLoad` was given.
pub(super) unsafe fn register(ctx: *mut raw::RedisModuleCtx, specs: &[ChoiceSpec]) -> bool {
    // SAFETY: the pointers are written by `Export_RedisModule_Init` alone, which has returned.
    let functions = unsafe {
        (
            raw::RedisModule_RegisterEnumConfig,
            raw::RedisModule_LoadConfigs,
        )
    };
    let (Some(register), Some(load)) = functions else {
        return true;
    };
    let are_registered = specs.iter().all(|spec| {
        let mut words: Vec<*const c_char> = spec.words.iter().map(|word| word.as_ptr()).collect();
        let places: Vec<c_int> = (0..spec.words.len() as c_int).collect();
        let choice: *const Choice = spec.choice;
        // SAFETY: `ctx` by the caller's promise; the server copies the words and places, and hands `choice`, a static, back to
        // the two functions only, which the module keeps as long as it is loaded.
        let done = unsafe {
            register(
                ctx,
                spec.name.as_ptr(),
                spec.choice.get() as c_int,
                raw::REDISMODULE_CONFIG_DEFAULT,
                words.as_mut_ptr(),
                places.as_ptr(),
                places.len() as c_int,
                Some(get),
                Some(set),
                None,
                choice.cast_mut().cast(),
            )
        };
        done == raw::REDISMODULE_OK as c_int
    });
    // SAFETY: as above.
    are_registered && unsafe { load(ctx) } == raw::REDISMODULE_OK as c_int
}

/// # Safety
/// For the server only, with the `choice` that it was given.
unsafe extern "C" fn get(_name: *const c_char, choice: *mut c_void) -> c_int {
    // SAFETY: `choice` is a static of type `Choice`.
    unsafe { &*choice.cast::<Choice>() }.get() as c_int
}

/// # Safety
/// For the server only, with the `choice` that it was given.
unsafe extern "C" fn set(
    _name: *const c_char,
    place: c_int,
    choice: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: `choice` is a static of type `Choice`.
    unsafe { &*choice.cast::<Choice>() }.set(place as usize);
    raw::REDISMODULE_OK as c_int
}
