//! The functions that every server must have.

/// Makes `api!(name)`, for these names only, and the check at load that they are all there.
macro_rules! required {
    ($($name:ident)*) => {
        /// The first function that this server lacks.
        pub(super) fn first_missing() -> Option<&'static str> {
            // SAFETY: the pointers are written by `Export_RedisModule_Init` alone, which has returned.
            $(if { unsafe { redis_module::raw::$name } }.is_none() {
                return Some(stringify!($name));
            })*
            None
        }

        /// The server's function of that name. To be called within `unsafe`: loading went on only because `first_missing`
        /// found it there, and nothing unsets it.
        macro_rules! api {
            $(($name) => {
                redis_module::raw::$name.unwrap_unchecked()
            };)*
        }
    };
}

required! {
    RedisModule_Call
    RedisModule_CloseKey
    RedisModule_CreateCommand
    RedisModule_CreateString
    RedisModule_FreeString
    RedisModule_GetExpire
    RedisModule_GetLFU
    RedisModule_GetLRU
    RedisModule_GetRandomBytes
    RedisModule_GetSelectedDb
    RedisModule_InfoAddFieldULongLong
    RedisModule_InfoAddSection
    RedisModule_InfoBeginDictField
    RedisModule_InfoEndDictField
    RedisModule_IsKeysPositionRequest
    RedisModule_KeyAtPos
    RedisModule_KeyType
    RedisModule_Log
    RedisModule_Milliseconds
    RedisModule_NotifyKeyspaceEvent
    RedisModule_OpenKey
    RedisModule_RegisterInfoFunc
    RedisModule_Replicate
    RedisModule_ReplyWithArray
    RedisModule_ReplyWithError
    RedisModule_ReplyWithLongLong
    RedisModule_SetExpire
    RedisModule_SetLFU
    RedisModule_SetLRU
    RedisModule_SetModuleOptions
    RedisModule_SignalModifiedKey
    RedisModule_StringDMA
    RedisModule_StringPtrLen
    RedisModule_StringTruncate
    RedisModule_ValueLength
    RedisModule_WrongArity
}

pub(super) use api;
