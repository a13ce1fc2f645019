//! The server's clock.

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
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the function writes to `time` alone. This clock is always there, and reading it cannot fail.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut time) };
        time.tv_sec
            .saturating_mul(1_000_000)
            .saturating_add(time.tv_nsec / 1000)
    });
    // A clock before 1970 or after the year 287000 is stuck at that end.
    Micros(micros).clamp(Micros(0), Millis::MAX.to_micros())
}
