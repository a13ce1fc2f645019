//! An open key: what it holds, and all that is done to a string.

use std::ffi::{c_int, c_longlong};
use std::{ptr, slice};

use redis_module::raw;

use super::api::api;
use super::call::Call;
use super::kept;
use crate::limiter::Millis;

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// There is no such key.
    Missing,
    /// A string.
    String,
    /// A list.
    List,
    /// A hash.
    Hash,
    /// A set.
    Set,
    /// A sorted set.
    SortedSet,
    /// A stream.
    Stream,
    /// A module's type, or one that this module does not know.
    Other,
}

/// What a key is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To look only. Where the server can, it does not count as a use of the key.
    Read,
    /// To read and write.
    Write,
}

/// How much a key is used: milliseconds since, or a frequency, -1 where the server's policy does not count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    idle: c_longlong,
    frequency: c_longlong,
}

/// An open key. Closed when dropped.
pub struct Key<'a> {
    call: Call<'a>,
    name: *mut raw::RedisModuleString,
    /// Null for a missing key that is only read.
    handle: *mut raw::RedisModuleKey,
    access: Access,
    /// What it held when it was opened, or since it was given a string.
    kind: Kind,
    /// Where its string lies, once that was asked for; until the string is resized or its expiry set.
    string: Option<(*mut u8, usize)>,
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        // SAFETY: `handle` is open, and closed only here; the server lets null pass.
        unsafe { api!(RedisModule_CloseKey)(self.handle) }
    }
}

impl<'a> Key<'a> {
    pub(super) fn open(
        call: Call<'a>,
        name: *mut raw::RedisModuleString,
        access: Access,
    ) -> Option<Self> {
        // Servers read those of these bits that they know and leave the others.
        const LOOK: u32 = raw::REDISMODULE_OPEN_KEY_NOTOUCH
            | raw::REDISMODULE_OPEN_KEY_NONOTIFY
            | raw::REDISMODULE_OPEN_KEY_NOSTATS;
        let mode = match access {
            Access::Read => raw::REDISMODULE_READ | LOOK,
            Access::Write => raw::REDISMODULE_READ | raw::REDISMODULE_WRITE,
        };
        // SAFETY: `ctx` and `name` belong to the call under way. A null handle is a missing key to the server.
        let (handle, kind) = unsafe {
            let handle = api!(RedisModule_OpenKey)(call.ctx, name, mode as c_int);
            (handle, api!(RedisModule_KeyType)(handle) as isize)
        };
        let kind = match kind {
            raw::REDISMODULE_KEYTYPE_EMPTY => Kind::Missing,
            raw::REDISMODULE_KEYTYPE_STRING => Kind::String,
            raw::REDISMODULE_KEYTYPE_LIST => Kind::List,
            raw::REDISMODULE_KEYTYPE_HASH => Kind::Hash,
            raw::REDISMODULE_KEYTYPE_SET => Kind::Set,
            raw::REDISMODULE_KEYTYPE_ZSET => Kind::SortedSet,
            raw::REDISMODULE_KEYTYPE_STREAM => Kind::Stream,
            _ => Kind::Other,
        };
        let is_open = access == Access::Read || !handle.is_null();
        is_open.then_some(Self {
            call,
            name,
            handle,
            access,
            kind,
            string: None,
        })
    }

    /// What the key holds.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Length of a string in bytes. Unlike [`Key::bytes`] it leaves the string's encoding as it is.
    pub fn string_len(&self) -> usize {
        // SAFETY: `handle` is open, or null, which has length 0.
        unsafe { api!(RedisModule_ValueLength)(self.handle) }
    }

    /// The string itself, in place; empty for whatever else the key holds. A short string that the server keeps in one piece
    /// with its header, as it does after loading, comes apart by this: nothing but its encoding changes.
    pub fn bytes(&mut self) -> &[u8] {
        let (bytes, len) = self.string();
        // SAFETY: the memory stays until the string is resized, its expiry set or the key closed, which the borrow of `self` forbids;
        // nothing else runs in the meantime.
        unsafe { slice::from_raw_parts(bytes, len) }
    }

    /// The same, to be written. Empty where the key was opened to be read.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if self.access == Access::Read {
            return &mut [];
        }
        let (bytes, len) = self.string();
        // SAFETY: as in `bytes`; the handle is open for writing, and a string longer than 0 is the key's own.
        unsafe { slice::from_raw_parts_mut(bytes, len) }
    }

    /// Where the string lies and how long it is; never null.
    fn string(&mut self) -> (*mut u8, usize) {
        if let Some(known) = self.string {
            return known;
        }
        const NOTHING: (*mut u8, usize) = (ptr::NonNull::dangling().as_ptr(), 0);
        if self.kind != Kind::String {
            return NOTHING;
        }
        let mode = match self.access {
            Access::Read => raw::REDISMODULE_READ,
            Access::Write => raw::REDISMODULE_READ | raw::REDISMODULE_WRITE,
        };
        let mut len = 0;
        // SAFETY: `handle` is open.
        let bytes = unsafe { api!(RedisModule_StringDMA)(self.handle, &mut len, mode as c_int) };
        let string = if bytes.is_null() || len == 0 {
            NOTHING
        } else {
            (bytes.cast(), len)
        };
        self.string = Some(string);
        string
    }

    /// Makes the string `len` bytes long, at least 1; what is new is zero. Creates the key where it is missing. False where
    /// the server refuses, which it does above 512 MB.
    ///
    /// The server keeps no room to spare behind a string of up to 4 MB.
    #[must_use]
    pub fn resize(&mut self, len: usize) -> bool {
        const FREED_UP_TO: usize = 4 * 1024 * 1024;
        let truncate = |len| {
            // SAFETY: `handle` is open for writing.
            let done = unsafe { api!(RedisModule_StringTruncate)(self.handle, len) };
            done == raw::REDISMODULE_OK as c_int
        };
        // A server that lengthens a string doubles its memory, and gives back what is not used only where that is more than
        // half: so there has to be more than half.
        let is_new = self.kind == Kind::Missing;
        self.string = None;
        let is_done = (is_new || len > FREED_UP_TO || truncate(2 * len + 2)) && truncate(len);
        if is_done {
            self.kind = Kind::String;
        }
        is_done
    }

    /// When the key expires; `None` if it does not.
    pub fn expires_at(&self) -> Option<Millis> {
        if self.kind == Kind::Missing {
            return None;
        }
        // SAFETY: the pointer is written by `Export_RedisModule_Init` alone, which has returned; `handle` is open.
        let at = unsafe {
            match raw::RedisModule_GetAbsExpire {
                Some(get) => get(self.handle),
                None => at_one_time(|now| match api!(RedisModule_GetExpire)(self.handle) {
                    left if left < 0 => left,
                    left => now + left,
                }),
            }
        };
        (at >= 0).then_some(Millis(at))
    }

    /// How much the key is used, as eviction sees it.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage {
            idle: -1,
            frequency: -1,
        };
        if self.handle.is_null() {
            return usage;
        }
        // SAFETY: `handle` is open; the server writes one integer each, or none.
        unsafe {
            api!(RedisModule_GetLRU)(self.handle, &mut usage.idle);
            api!(RedisModule_GetLFU)(self.handle, &mut usage.frequency);
        }
        usage
    }

    /// Makes it used as much as that, and no more.
    pub fn set_usage(&mut self, usage: Usage) {
        if self.handle.is_null() {
            return;
        }
        // SAFETY: `handle` is open. Each of the two does nothing under a policy that does not count it.
        unsafe {
            if usage.idle >= 0 {
                api!(RedisModule_SetLRU)(self.handle, usage.idle);
            }
            if usage.frequency >= 0 {
                api!(RedisModule_SetLFU)(self.handle, usage.frequency);
            }
        }
    }

    /// Makes the key expire at `time`. The key exists.
    pub fn expire_at(&mut self, time: Millis) {
        // The server may move what it keeps of the key.
        self.string = None;
        // SAFETY: as in `expires_at`; `handle` is open for writing.
        unsafe {
            match raw::RedisModule_SetAbsExpire {
                Some(set) => set(self.handle, time.0),
                None => at_one_time(|now| {
                    let left = (time.0 - now).max(0);
                    api!(RedisModule_SetExpire)(self.handle, left)
                }),
            };
        }
    }

    /// Tells those that watch or track the key that it changed.
    pub fn signal_changed(&self) {
        // SAFETY: `ctx` and `name` belong to the call under way.
        unsafe { api!(RedisModule_SignalModifiedKey)(self.call.ctx, self.name) };
    }

    /// Sends replicas and the append-only file the whole string and when it expires. False where the server cannot.
    #[must_use]
    pub fn replicate_set(&mut self, expires_at: Millis) -> bool {
        let (ctx, name) = (self.call.ctx, self.name);
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(expires_at.0);
        let pxat = kept::pxat();
        let (bytes, len) = self.string();
        // SAFETY: `ctx` and `name` belong to the call under way; the format tells what follows: a name, a buffer with its
        // length, a string that is kept, a buffer with its length. The server copies the buffers.
        let done = unsafe {
            api!(RedisModule_Replicate)(
                ctx,
                c"SET".as_ptr(),
                c"sbsb".as_ptr(),
                name,
                bytes,
                len,
                pxat,
                digits.as_ptr(),
                digits.len(),
            )
        };
        done == raw::REDISMODULE_OK as c_int
    }

    /// Sends replicas and the append-only file `len` bytes of the string from `start` on. False where the server cannot.
    #[must_use]
    pub fn replicate_stretch(&mut self, start: usize, len: usize) -> bool {
        let (ctx, name) = (self.call.ctx, self.name);
        let Some(bytes) = self.bytes().get(start..start.saturating_add(len)) else {
            return false;
        };
        let done = match kept::offset(start) {
            // SAFETY: as in `replicate_set`: a name, a string that is kept, a buffer with its length.
            Some(offset) => unsafe {
                api!(RedisModule_Replicate)(
                    ctx,
                    c"SETRANGE".as_ptr(),
                    c"ssb".as_ptr(),
                    name,
                    offset,
                    bytes.as_ptr(),
                    bytes.len(),
                )
            },
            None => {
                let mut digits = itoa::Buffer::new();
                let digits = digits.format(start);
                // SAFETY: as in `replicate_set`: a name, two buffers with their lengths.
                unsafe {
                    api!(RedisModule_Replicate)(
                        ctx,
                        c"SETRANGE".as_ptr(),
                        c"sbb".as_ptr(),
                        name,
                        digits.as_ptr(),
                        digits.len(),
                        bytes.as_ptr(),
                        bytes.len(),
                    )
                }
            }
        };
        done == raw::REDISMODULE_OK as c_int
    }

    /// Sends replicas and the append-only file when the key expires. False where the server cannot.
    #[must_use]
    pub fn replicate_expiry(&self, expires_at: Millis) -> bool {
        // SAFETY: as in `replicate_set`: a name, an integer.
        let done = unsafe {
            api!(RedisModule_Replicate)(
                self.call.ctx,
                c"PEXPIREAT".as_ptr(),
                c"sl".as_ptr(),
                self.name,
                expires_at.0 as c_longlong,
            )
        };
        done == raw::REDISMODULE_OK as c_int
    }
}

/// The answer of `ask`, which is given the time and asks the server for something counted from it, made sure to be of one
/// and the same millisecond. (Redis before 6.2.8 has no absolute expiry.)
fn at_one_time<T>(ask: impl Fn(c_longlong) -> T) -> T {
    loop {
        // SAFETY: the function takes and keeps nothing.
        let before = unsafe { api!(RedisModule_Milliseconds)() };
        let answer = ask(before);
        // SAFETY: as above.
        if unsafe { api!(RedisModule_Milliseconds)() } == before {
            return answer;
        }
    }
}
