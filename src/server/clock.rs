//! The server's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use redis_module::raw;

use crate::limiter::{Micros, Millis};

/// Now, by the clock that the server's expiry goes by.
///
/// Where the server has a cached clock (from 7.2 on) it stands still within a command, a transaction and a script. Elsewhere the
/// system's is read.
pub(super) fn now() -> Micros {
    // SAFETY: the pointer is written by `Export_RedisModule_Init` alone, which has returned; the function takes and keeps nothing.
    let cached = unsafe { raw::RedisModule_CachedMicroseconds.map(|cached| cached()) };
    let micros = cached.unwrap_or_else(|| {
        let passed = SystemTime::now().duration_since(UNIX_EPOCH);
        passed.map_or(0, |passed| {
            i64::try_from(passed.as_micros()).unwrap_or(i64::MAX)
        })
    });
    // A clock before 1970 or after the year 287000 is stuck at that end.
    Micros(micros).clamp(Micros(0), Millis::MAX.to_micros())
}
