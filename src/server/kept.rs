//! Strings of the server that are kept from load to unload, for what is sent to replicas again and again: making one costs more
//! than our decision does.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

use super::api::api;

/// How many places in a string are kept as text: all of a bucket, and the first slots of a log.
const OFFSETS: usize = 128;

type Text = AtomicPtr<raw::RedisModuleString>;

static PXAT: Text = AtomicPtr::new(ptr::null_mut());
static OFFSET: [Text; OFFSETS] = [const { AtomicPtr::new(ptr::null_mut()) }; OFFSETS];

/// The word `PXAT`.
pub(super) fn pxat() -> *mut raw::RedisModuleString {
    PXAT.load(Ordering::Relaxed)
}

/// `offset` in digits; `None` where it is not kept.
pub(super) fn offset(offset: usize) -> Option<*mut raw::RedisModuleString> {
    Some(OFFSET.get(offset)?.load(Ordering::Relaxed))
}

/// Makes all of them. Called while the module is loaded, before any command can run.
pub(super) fn make() {
    let create = |text: &str| {
        // SAFETY: without a context the string is ours until we free it; the server copies the text.
        unsafe { api!(RedisModule_CreateString)(ptr::null_mut(), text.as_ptr().cast(), text.len()) }
    };
    PXAT.store(create("PXAT"), Ordering::Relaxed);
    let mut digits = itoa::Buffer::new();
    for (offset, text) in OFFSET.iter().enumerate() {
        text.store(create(digits.format(offset)), Ordering::Relaxed);
    }
}

/// Frees them, when no command can run any more or none ever did.
pub(super) fn free() {
    for text in OFFSET.iter().chain([&PXAT]) {
        let text = text.swap(ptr::null_mut(), Ordering::Relaxed);
        if !text.is_null() {
            // SAFETY: made by `make`. Where the server still has it to send, it has counted that, and this gives up our share only.
            unsafe { api!(RedisModule_FreeString)(ptr::null_mut(), text) };
        }
    }
}
